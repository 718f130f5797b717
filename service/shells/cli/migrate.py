"""`rigfit migrate`."""

import sys

from service.catalog.seed import seed_catalogues
from service.settings import settings
from service.store.database import open_database
from service.store.migrations import upgrade


def migrate() -> None:
    """Bring the database to this release's tables and its catalogues to the built-in data, telling of each step."""
    chosen = settings()
    database = open_database(chosen.database_url, connections=chosen.max_database_connections)
    try:
        _say(f"  {database.url.render_as_string(hide_password=True)}")
        upgrade(database)
        _say("  tables: those of this release")
        for seeded in seed_catalogues(database):
            changes = seeded.changes
            done = f"{changes.inserted} added, {changes.changed} changed, {changes.removed} removed"
            _say(f"  {seeded.catalogue}: {done if changes else 'up to date'}")
    finally:
        database.dispose()


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
