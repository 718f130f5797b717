"""Bringing a database to the tables of this release, and back."""

from functools import cache

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine

from service.builtin import builtin_folder


def upgrade(engine: Engine, revision: str = "head") -> None:
    """Apply every migration up to `revision`; does nothing where the database is there already."""
    with engine.begin() as connection:
        command.upgrade(_config(connection), revision)


def downgrade(engine: Engine, revision: str = "base") -> None:
    """Take back every migration after `revision`; what its tables held is lost."""
    with engine.begin() as connection:
        command.downgrade(_config(connection), revision)


def current_revision(engine: Engine) -> str | None:
    """Name the migration that the database is at, None where it was never migrated."""
    with engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def head_revision() -> str:
    """Name the newest migration of this release."""
    return known_revisions()[0]


@cache
def known_revisions() -> tuple[str, ...]:
    """Name the migrations of this release, the newest first."""
    return tuple(script.revision for script in ScriptDirectory.from_config(_config(None)).walk_revisions())


def _config(connection: Connection | None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(builtin_folder("migrations")).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config
