"""`rigfit keys`: API keys are made, listed and revoked where the database is reached."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table
from sqlalchemy import Engine

from service.planning.access.keys import listed_keys, make_key, revoke_key
from service.settings import settings
from service.shells.cli.migrate import prepared_database
from service.store.keys import StoredKey


def create(name: str, scopes: Sequence[str], days: int | None) -> None:
    """Print a new key: the key alone on standard output, what to know about it beside it. Raises PlanProblem."""
    with _database() as database:
        made = make_key(database, name, scopes, days=days)
    until = "" if made.entry.expires_at is None else f", until {made.entry.expires_at:%Y-%m-%d %H:%M} UTC"
    sys.stderr.write(
        f"{name} may {', '.join(made.entry.scopes)}{until}. Send it as X-API-Key; it is not shown again.\n"
    )
    sys.stdout.write(f"{made.text}\n")


def print_keys() -> None:
    """List the keys, never what opens."""
    with _database() as database:
        found = listed_keys(database)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("name", "scopes", "state", "made", "last used"):
        table.add_column(title, no_wrap=title == "name")
    now = datetime.now(UTC)
    for key in found:
        table.add_row(key.name, ", ".join(key.scopes), _state(key, now), _day(key.created_at), _day(key.last_used_at))
    Console(highlight=False).print(table if found else "no key was made yet")


def revoke(name: str) -> None:
    """Revoke a key by its name; raises PlanProblem."""
    with _database() as database:
        revoke_key(database, name)
    sys.stdout.write(f"{name} opens nothing any more; servers notice within a second\n")


@contextmanager
def _database() -> Iterator[Engine]:
    database = prepared_database(settings())
    try:
        yield database
    finally:
        database.dispose()


def _state(key: StoredKey, now: datetime) -> str:
    if key.revoked_at is not None:
        return f"revoked {_day(key.revoked_at)}"
    if key.expires_at is None:
        return "valid"
    return f"{'valid until' if now < key.expires_at else 'expired'} {_day(key.expires_at)}"


def _day(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M}"
