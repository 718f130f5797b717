"""Runs migrations on the connection that service.store.migrations gives, or on RIGFIT_DATABASE_URL."""

from alembic import context
from sqlalchemy import Connection, func, select

from service.settings import Settings
from service.store.batch_tables import METADATA
from service.store.database import open_database

# any number that no other program takes as its advisory lock
MIGRATION_LOCK = 0x5219F17


def migrate(connection: Connection) -> None:
    """Migrate in one transaction; a second process that migrates waits and then finds nothing to do."""
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(MIGRATION_LOCK)))
    else:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    context.configure(
        connection=connection,
        target_metadata=METADATA,
        # SQLite changes a table by copying it
        render_as_batch=connection.dialect.name == "sqlite",
        transactional_ddl=True,
        compare_server_default=True,
    )
    with context.begin_transaction():
        context.run_migrations()


given: Connection | None = context.config.attributes.get("connection")
if given is not None:
    migrate(given)
else:
    engine = open_database(Settings().database_url)
    with engine.begin() as opened:
        migrate(opened)
    engine.dispose()
