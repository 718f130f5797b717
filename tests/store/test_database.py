"""Opening databases: which ones, and what a transaction promises."""

import time
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine

from service.store.database import open_database, transaction
from service.store.gpus import GpuEntry, gpus, keep_user_gpu
from service.store.revisions import builtin_digest, lock_catalogue, move_revision, revisions
from tests.databases import Databases, opened


@pytest.mark.parametrize("url", ["mysql://localhost/rigfit", "sqlite://", "sqlite:///:memory:"])
def test_other_databases_are_refused(url: str) -> None:
    """A database that migrations do not know, or that would vanish with the process, is named as such."""
    with pytest.raises(ValueError, match="RIGFIT_DATABASE_URL"):
        open_database(url)


@pytest.mark.parametrize("scheme", ["postgresql", "postgresql+psycopg", "postgres"])
def test_postgresql_is_spoken_through_psycopg(scheme: str) -> None:
    """Every usual spelling of a PostgreSQL address gets the one driver that is installed."""
    with opened(f"{scheme}://somebody@localhost/rigfit") as engine:
        assert (engine.dialect.name, engine.dialect.driver) == ("postgresql", "psycopg")


def test_folder_of_an_sqlite_file_is_made(tmp_path: Path) -> None:
    """The embedded default needs nothing prepared."""
    path = tmp_path / "new" / "folder" / "rigfit.sqlite3"
    with opened(f"sqlite:///{path}") as engine, engine.connect():
        assert path.is_file()


def test_connections_are_kept_after_some_were_lost_under_a_wrong_clock(
    postgresql: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock is a day ahead when the server ends a connection: once it is right, one is not made for each use."""
    with opened(postgresql.copy_of("empty", lambda _: None)) as database:
        right = time.time
        with database.connect() as connection:
            lost = number(connection)
        end(database, lost)
        monkeypatch.setattr(time, "time", lambda: right() + 86_400)
        with database.connect() as held:
            assert number(held) != lost
            monkeypatch.undo()
            others = set()
            for _ in range(3):
                with database.connect() as connection:
                    others.add(number(connection))
            assert len(others) == 1


def number(connection: Connection) -> int:
    """Which connection of the server's it is."""
    found: int = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
    return found


def end(database: Engine, lost: int) -> None:
    """Let the server end a connection."""
    with opened(database.url.render_as_string(hide_password=False)) as other, other.connect() as connection:
        connection.exec_driver_sql("SELECT pg_terminate_backend(%s)", (lost,))


def test_transaction_that_raises_leaves_no_trace(database: Engine) -> None:
    """Rows and revision go back together."""
    with transaction(database) as session:
        before = revisions(session)

    def enter_a_card_and_fail() -> None:
        with transaction(database) as session:
            keep_user_gpu(session, GpuEntry(slug="lab-card", record={}))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        enter_a_card_and_fail()
    with transaction(database) as session:
        assert gpus(session) == []
        assert revisions(session) == before


def test_catalogue_remembers_what_it_was_seeded_from(database: Engine) -> None:
    """The digest of the built-in data is kept per catalogue, and locking changes no counter."""
    with transaction(database) as session:
        before = revisions(session)
        assert lock_catalogue(session, "gpus") is None
        assert revisions(session) == before
        move_revision(session, "gpus", builtin_digest="ab" * 32)
    with transaction(database) as session:
        assert builtin_digest(session, "gpus") == "ab" * 32
        assert builtin_digest(session, "models") is None
        move_revision(session, "gpus")
        assert builtin_digest(session, "gpus") == "ab" * 32
