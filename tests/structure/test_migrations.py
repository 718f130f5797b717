"""Migrations lead up, down and up again, to exactly the tables of the code, on both databases."""

import os
import subprocess
import sys

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, inspect

from service.store.batch_tables import METADATA
from service.store.migrations import current_revision, downgrade, head_revision, upgrade
from tests.databases import opened
from tests.structure.repository import ROOT


def test_migrations_go_up_down_and_up_again(empty_database: Engine) -> None:
    """Down removes every table that up made, and up makes them again."""
    upgrade(empty_database)
    assert set(METADATA.tables) < set(inspect(empty_database).get_table_names())
    downgrade(empty_database)
    assert inspect(empty_database).get_table_names() == ["alembic_version"]
    assert current_revision(empty_database) is None
    upgrade(empty_database)
    assert current_revision(empty_database) == head_revision()


def test_migrating_twice_changes_nothing(database: Engine) -> None:
    """A database at the newest revision stays there."""
    upgrade(database)
    assert current_revision(database) == head_revision()


def test_migrations_make_the_tables_of_the_code(database: Engine) -> None:
    """Nothing is left to migrate between what migrations made and what the code declares."""
    with database.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, METADATA) == []


def test_alembic_command_reaches_the_configured_database(empty_database_url: str) -> None:
    """A developer's `alembic` finds the migrations and migrates the database that RIGFIT_DATABASE_URL names."""
    environment = os.environ | {"RIGFIT_DATABASE_URL": empty_database_url}
    for arguments in (["upgrade", "head"], ["check"]):
        subprocess.run(
            [sys.executable, "-m", "alembic", *arguments], cwd=ROOT, env=environment, check=True, capture_output=True
        )
    with opened(empty_database_url) as engine:
        assert current_revision(engine) == head_revision()


def test_processes_that_start_at_once_migrate_once(empty_database_url: str) -> None:
    """Of two that migrate a new database at the same moment, neither fails."""
    environment = os.environ | {"RIGFIT_DATABASE_URL": empty_database_url}
    started = [
        subprocess.Popen([sys.executable, "-m", "alembic", "upgrade", "head"], cwd=ROOT, env=environment) for _ in "12"
    ]
    assert [process.wait() for process in started] == [0, 0]
    with opened(empty_database_url) as engine:
        assert current_revision(engine) == head_revision()
