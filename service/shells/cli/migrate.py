"""`rigfit migrate`."""

import sys

from sqlalchemy import Engine

from service.catalog.seed import seed_catalogues
from service.settings import Settings, settings
from service.store.database import open_database, shown_url
from service.store.migrations import upgrade


def migrate() -> None:
    """Bring the database to this release's tables and its catalogues to the built-in data, telling of each step."""
    chosen = settings()
    database = open_database(chosen.database_url, connections=chosen.max_database_connections)
    try:
        _say(f"  {shown_url(database)}")
        upgrade(database)
        _say("  tables: those of this release")
        for seeded in seed_catalogues(database):
            changes = seeded.changes
            done = f"{changes.inserted} added, {changes.changed} changed, {changes.removed} removed"
            _say(f"  {seeded.catalogue}: {done if changes else 'up to date'}")
    finally:
        database.dispose()


def prepared_database(chosen: Settings) -> Engine:
    """The database of the settings with this release's tables and catalogues, made where there was none."""
    database = open_database(chosen.database_url, connections=chosen.max_database_connections)
    upgrade(database)
    for _ in seed_catalogues(database):
        pass
    return database


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
