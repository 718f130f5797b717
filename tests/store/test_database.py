"""Opening databases: which ones, and what a transaction promises."""

from pathlib import Path

import pytest
from sqlalchemy import Engine

from service.store.database import open_database, transaction
from service.store.gpus import GpuEntry, gpus, keep_user_gpu
from service.store.revisions import builtin_digest, lock_catalogue, move_revision, revisions
from tests.databases import opened


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
