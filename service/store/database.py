"""Opening a database: one engine per process, sessions as transactions."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Engine, create_engine, event, make_url
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.orm import Session
from sqlalchemy.pool import ConnectionPoolEntry

from service.store.tables import Table

SQLITE_BUSY_TIMEOUT_MS = 10_000
# how long a request waits for one of the process's connections, all of which are in use
POOL_WAIT_S = 5.0
# a server that vanished without a word is found out within seconds, where Linux by default waits for two hours;
# what the database's URL says goes before. Source: PostgreSQL 18, 32.1.2 (parameter key words)
LINK_LIMITS: Mapping[str, int] = {
    "connect_timeout": 3,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}


def open_database(url: str, *, connections: int = 10) -> Engine:
    """Open the database at an SQLAlchemy URL; nothing is connected before the first use.

    What fails names its statement, without the values, which may be secret.
    An SQLite file and its folder are made where absent. Raises ValueError for any other kind of database.
    """
    address = make_url(url)
    match address.get_backend_name():
        case "sqlite":
            return _open_sqlite(address)
        case "postgresql" | "postgres":
            address = address.set(drivername="postgresql+psycopg")
            engine = create_engine(
                address,
                pool_size=connections,
                pool_pre_ping=True,
                pool_timeout=POOL_WAIT_S,
                hide_parameters=True,
                connect_args={name: value for name, value in LINK_LIMITS.items() if name not in address.query},
            )
            event.listen(engine, "connect", partial(_follow_lost_ones, engine))
            return engine
        case other:
            raise ValueError(f"RIGFIT_DATABASE_URL names {other}: use postgresql+psycopg:// or sqlite:///")


def _follow_lost_ones(engine: Engine, _: DBAPIConnection, made: ConnectionPoolEntry) -> None:
    """Let no connection that is made now count as older than those that were lost.

    The pool dates both by the wall clock: lost while that was a day ahead, each connection would be made anew at each
    use for a day. Source: SQLAlchemy 2.1.9, pool/base.py, _ConnectionRecord.get_connection.
    """
    record: Any = made
    record.starttime = max(record.starttime, engine.pool._invalidate_time)  # noqa: SLF001 - it has no other name


def _open_sqlite(address: URL) -> Engine:
    if not address.database or address.database == ":memory:":
        raise ValueError("RIGFIT_DATABASE_URL must name an SQLite file: sqlite:///var/rigfit.sqlite3")
    Path(address.database).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(address, hide_parameters=True)
    event.listen(engine, "connect", _configure_sqlite)
    return engine


def _configure_sqlite(connection: sqlite3.Connection, _: ConnectionPoolEntry) -> None:
    """Readers never wait for a writer (WAL), foreign keys hold, a second writer waits its turn."""
    connection.execute(f"PRAGMA busy_timeout = {SQLITE_BUSY_TIMEOUT_MS}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA foreign_keys = ON")


def shown_url(engine: Engine) -> str:
    """Address of a database as logs may show it: without passwords, wherever in it they stand."""
    shown = {name: value for name, value in engine.url.query.items() if "password" not in name}
    return engine.url.set(query=shown).render_as_string(hide_password=True)


@contextmanager
def transaction(engine: Engine) -> Iterator[Session]:
    """Open a session whose work is committed at the end of the block, or undone where the block raises."""
    with Session(engine, expire_on_commit=False) as session, session.begin():
        yield session


def insert_where_absent(session: Session, table: type[Table], values: Mapping[str, object]) -> None:
    """Insert a row unless one with its key is there, also where another process inserts it at this moment."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(postgresql.insert(table).values(values).on_conflict_do_nothing())
    else:
        session.execute(sqlite.insert(table).values(values).on_conflict_do_nothing())
