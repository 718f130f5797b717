"""The queue's own tables: procrastinate's, in a schema of their own beside the service's tables, in PostgreSQL only."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, cast

from sqlalchemy import Connection as SqlConnection
from sqlalchemy import Engine, make_url
from sqlalchemy.orm import Session

if TYPE_CHECKING:
    from procrastinate import App
    from psycopg import Connection

SCHEMA: Final = "rigfit_queue"
_PATH: Final = f"SET LOCAL search_path TO {SCHEMA}"
_NO_PATH: Final = "SET LOCAL search_path TO DEFAULT"


def has_queue(database: Engine) -> bool:
    """Whether a database can hold a queue."""
    return database.dialect.name == "postgresql"


def migrate_queue(connection: SqlConnection, through: str) -> None:
    """Make the schema with procrastinate's own migrations, up to and including one; for a migration of ours to call."""
    connection.exec_driver_sql(f"CREATE SCHEMA {SCHEMA}")
    with _searched(connection) as driver:
        folder = files("procrastinate.sql") / "migrations"
        for name in sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql")):
            if name <= through:
                driver.execute((folder / name).read_bytes())


def drop_queue(connection: SqlConnection) -> None:
    """Remove the schema and what it holds."""
    connection.exec_driver_sql(f"DROP SCHEMA {SCHEMA} CASCADE")


def enqueue(session: Session, task: str, queue: str, entries: Sequence[Mapping[str, Any]]) -> None:
    """Have a task done once for each entry; they are in the queue when the session's transaction is committed."""
    if not entries:
        return
    from procrastinate import App, SyncPsycopgConnector  # noqa: PLC0415 - most of what opens a database has no queue

    deferrer = App(connector=SyncPsycopgConnector())
    with _searched(session.connection()) as driver:
        deferrer.configure_task(task, queue=queue, connection=driver).batch_defer(*map(dict, entries))


def queue_app(url: str, connections: int, wait_s: float) -> "App":
    """What workers take entries with, on connections of its own; gives up after `wait_s` without one."""
    from procrastinate import App, PsycopgConnector  # noqa: PLC0415 - see above

    address = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    return App(
        connector=PsycopgConnector(
            conninfo=address,
            kwargs={"options": f"-c search_path={SCHEMA}"},
            min_size=1,
            max_size=connections,
            timeout=wait_s,
        )
    )


@contextmanager
def _searched(connection: SqlConnection) -> "Iterator[Connection[Any]]":
    """The driver's connection, for statements that find the queue's tables; ours are found again after the block."""
    connection.exec_driver_sql(_PATH)
    yield cast("Connection[Any]", connection.connection.driver_connection)
    connection.exec_driver_sql(_NO_PATH)
