"""Databases that go away and come back."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Engine, create_engine, text
from sqlalchemy.pool import NullPool


def take_away(database: Engine) -> Callable[[], None]:
    """Make a database unreachable and end what its connections are doing; gives what brings it back."""
    if database.dialect.name == "sqlite":
        return _hide_file(database)
    name = str(database.url.database)
    _administer(database, f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    # `name` is one that tests made up
    _administer(database, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")  # noqa: S608
    return lambda: _administer(database, f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")


def _hide_file(database: Engine) -> Callable[[], None]:
    database.dispose()
    path = Path(str(database.url.database))
    hidden = path.with_suffix(".hidden")
    path.rename(hidden)
    path.mkdir()

    def bring_back() -> None:
        path.rmdir()
        hidden.rename(path)

    return bring_back


def _administer(database: Engine, statement: str) -> None:
    server = create_engine(database.url.set(database="postgres"), isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with server.connect() as connection:
        connection.execute(text(statement))


@contextmanager
def away_for(database: Engine, duration_s: float) -> Iterator[None]:
    """Take a database away at the start of the block and bring it back after so many seconds."""
    back = threading.Timer(duration_s, take_away(database))
    back.start()
    try:
        yield
    finally:
        back.join()
