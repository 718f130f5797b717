"""A database is filled with every built-in card and model, once, whoever asks and however often."""

from concurrent.futures import ThreadPoolExecutor

from sqlalchemy import Engine

from service.catalog.builtin_models import builtin_rows
from service.catalog.gpu_records import iter_gpu_records
from service.catalog.seed import seed_catalogues
from service.catalog.stored_gpus import StoredGpus
from service.catalog.stored_models import StoredModels
from service.store.database import transaction
from service.store.gpus import GpuEntry, gpu, keep_user_gpu
from service.store.revisions import Changes
from tests.databases import opened


def seed(database: Engine) -> dict[str, Changes]:
    return {seeded.catalogue: seeded.changes for seeded in seed_catalogues(database)}


def test_seeded_catalogues_are_those_of_the_files(database: Engine) -> None:
    """Cards and models read back from the database equal the ones read from the files."""
    assert {name: changes.inserted for name, changes in seed(database).items()} == {"cards": 237, "models": 902}
    assert {record.slug: record for record in StoredGpus(database).records()} == {
        record.slug: record for record in iter_gpu_records()
    }
    assert {row.id: row for row in StoredModels(database).rows()} == {row.id: row for row in builtin_rows()}


def test_seeding_again_touches_nothing(seeded_database: Engine) -> None:
    """A second start changes neither rows nor revisions."""
    before = (StoredGpus(seeded_database).revision(), StoredModels(seeded_database).revision())
    assert not any(seed(seeded_database).values())
    assert (StoredGpus(seeded_database).revision(), StoredModels(seeded_database).revision()) == before


def test_seeding_keeps_what_a_user_edited(database: Engine) -> None:
    """A user's own version of a card is there before and after the built-in ones arrive."""
    mine = GpuEntry(slug="rtx-3090", record={"slug": "rtx-3090", "name": "my 3090"})
    with transaction(database) as session:
        kept = keep_user_gpu(session, mine)
    assert seed(database)["cards"].inserted == 236
    with transaction(database) as session:
        assert gpu(session, "rtx-3090") == kept


def test_processes_that_start_at_once_seed_once(database_url: str) -> None:
    """Of two that seed the same database at the same moment, one inserts everything and the other nothing."""

    def start(_: int) -> dict[str, Changes]:
        with opened(database_url) as engine:
            return seed(engine)

    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(start, range(2)))
    assert sorted(changes["cards"].inserted for changes in both) == [0, 237]
    assert sorted(changes["models"].inserted for changes in both) == [0, 902]
