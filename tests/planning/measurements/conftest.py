"""A planner on a seeded database, and benchmarks brought into it."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine

from service.contract.measurements import ImportedMeasurements, MeasurementHints
from service.planning.catalogues import StoredCatalogues
from service.planning.measurements.importing import import_measurements
from service.planning.planner import Planner
from tests.databases import Databases, migrate_and_seed, opened


class Measuring:
    """A planner, and its database."""

    def __init__(self, database: Engine) -> None:
        self.database = database
        self.planner = Planner(StoredCatalogues(database, refresh_s=0.0))

    def bring(self, text: str, **hints: object) -> ImportedMeasurements:
        """Import what a program printed."""
        return import_measurements(self.planner, self.database, text, MeasurementHints.model_validate(hints))


@pytest.fixture
def measuring(sqlite: Databases) -> Iterator[Measuring]:
    """Nothing was measured yet."""
    with opened(sqlite.copy_of("seeded", migrate_and_seed)) as database:
        yield Measuring(database)


@pytest.fixture
def measuring_anywhere(seeded_database: Engine) -> Measuring:
    """The same on each supported kind of database."""
    return Measuring(seeded_database)
