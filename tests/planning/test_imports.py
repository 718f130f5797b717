"""What users bring is kept whole and once, or not at all."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, event, func, select
from sqlalchemy.orm import Session

from service.core.problems import Contradiction, InvalidRequest, Unsupported
from service.core.types import Model
from service.gguf.reader import read_header
from service.planning.catalogues import StoredCatalogues
from service.planning.imports import Kept, keep_model
from service.planning.outages import DatabaseUnavailable
from service.store.migrations import upgrade
from service.store.models import aliases, models
from service.store.revisions import revisions
from service.store.tables import ModelTable
from tests.databases import Databases, opened
from tests.gguf.gguf_bytes import LITTLE, TEXT
from tests.planning.outages import away_for, take_away
from tests.remote.llama import HEADER, named_header

HOUSE = read_header(HEADER)


def keep(database: Engine, model: Model = HOUSE, alias: str | None = None) -> Kept:
    catalogues = StoredCatalogues(database, refresh_s=60)
    return keep_model(catalogues, database, model, name="house", source="upload of house.gguf", alias=alias)


def state(database: Engine) -> tuple[list[str], dict[str, str], int]:
    """Models, aliases, and the revision of the catalogue."""
    with Session(database) as session:
        kept = [row.id for row in models(session)]
        return kept, dict(aliases(session)), revisions(session)["models"]


def test_a_model_and_its_alias_are_kept_together(database: Engine) -> None:
    """Once, and the alias in lower case."""
    assert keep(database, alias="House") == Kept(id=HOUSE.id, is_new=True)
    assert keep(database, alias="house") == Kept(id=HOUSE.id, is_new=False)
    kept, named, _ = state(database)
    assert (kept, named) == ([HOUSE.id], {"house": HOUSE.id})


def test_a_second_alias_for_what_is_there(database: Engine) -> None:
    """A model may have several."""
    keep(database, alias="one")
    keep(database, alias="two")
    catalogue = StoredCatalogues(database, refresh_s=60).models
    assert catalogue.resolve("ONE").row.id == catalogue.resolve("two").row.id == HOUSE.id
    assert catalogue.resolve("two").row.aliases == ("one", "two")


def test_an_alias_of_another_model_keeps_nothing(database: Engine) -> None:
    """Also where another process gave it away at the same moment, unseen by this one."""
    villa = read_header(named_header("Villa"))
    catalogues = StoredCatalogues(database, refresh_s=60)
    assert catalogues.models.search() == ()
    keep(database, villa, alias="taken")
    before = state(database)
    with pytest.raises(Contradiction, match="taken"):
        keep_model(catalogues, database, HOUSE, name="house", source=None, alias="taken")
    assert state(database) == before


@pytest.mark.parametrize("alias", ["", " ", "a b", "-x", "é", "sha256:00", "x" * 201])
def test_an_alias_that_is_no_name(database: Engine, alias: str) -> None:
    """It is refused before anything is written."""
    with pytest.raises(InvalidRequest, match="is no alias"):
        keep(database, alias=alias)
    assert state(database)[0] == []


def test_what_nothing_could_be_planned_for_is_not_kept(database: Engine) -> None:
    """An unknown architecture leaves no trace."""
    unknown = read_header(LITTLE.preamble(0, 1) + LITTLE.pair("general.architecture", TEXT, "nova"))
    before = state(database)
    with pytest.raises(Unsupported, match="nova"):
        keep(database, unknown)
    assert state(database) == before


def test_a_database_that_comes_back_has_the_model(database: Engine) -> None:
    """An import that finds the database away waits a little, and keeps everything once."""
    catalogues = StoredCatalogues(database, refresh_s=60)
    assert catalogues.models.search() == ()
    with away_for(database, 0.6):
        kept = keep_model(catalogues, database, HOUSE, name="house", source=None, alias="house")
    assert kept == Kept(id=HOUSE.id, is_new=True)
    assert state(database)[:2] == ([HOUSE.id], {"house": HOUSE.id})


def test_a_database_that_stays_away_has_nothing(database: Engine) -> None:
    """The caller is told that nothing was kept, and nothing was."""
    catalogues = StoredCatalogues(database, refresh_s=60)
    assert catalogues.models.search() == ()
    before = state(database)
    bring_back = take_away(database)
    try:
        with pytest.raises(DatabaseUnavailable, match="nothing was kept"):
            keep_model(catalogues, database, HOUSE, name="house", source=None, alias="house")
    finally:
        bring_back()
    assert state(database) == before


@pytest.fixture
def postgres_database(postgresql: Databases) -> Iterator[Engine]:
    """A migrated PostgreSQL database."""
    with opened(postgresql.copy_of("migrated", upgrade)) as engine:
        yield engine


@pytest.mark.parametrize("statement", ["INSERT INTO models ", "INSERT INTO model_aliases", "UPDATE catalogues"])
def test_a_connection_that_breaks_between_statements_leaves_no_half(postgres_database: Engine, statement: str) -> None:
    """The server ends the connection after one of the statements of the import: it is done again, as a whole."""
    broken = threading.Event()
    seen: list[int] = []

    @event.listens_for(postgres_database, "after_cursor_execute")
    def break_once(*arguments: Any) -> None:
        if arguments[2].startswith(statement) and not broken.is_set():
            broken.set()
            take_away(postgres_database)()
            seen.append(rows(postgres_database))

    kept = keep(postgres_database, alias="house")
    assert broken.is_set()
    # as other connections saw it between the two attempts
    assert seen == [0]
    assert kept == Kept(id=HOUSE.id, is_new=True)
    assert state(postgres_database)[:2] == ([HOUSE.id], {"house": HOUSE.id})


def rows(database: Engine) -> int:
    """Number of models, as a connection of its own sees it."""
    with opened(database.url.render_as_string(hide_password=False)) as other, Session(other) as session:
        return session.scalars(select(func.count()).select_from(ModelTable)).one()


def test_the_same_model_from_many_sides_at_once(database: Engine) -> None:
    """Eight imports of one content make one row and one alias."""
    kept: list[Kept] = []
    threads = [threading.Thread(target=lambda: kept.append(keep(database, alias="house"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {each.id for each in kept} == {HOUSE.id}
    assert len(kept) == 8
    assert state(database)[:2] == ([HOUSE.id], {"house": HOUSE.id})
