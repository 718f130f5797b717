"""A planner on a seeded database, and benchmarks brought into it."""

import pytest
from sqlalchemy import Engine

from service.contract.measurements import ImportedMeasurements, MeasurementHints
from service.planning.catalogues import StoredCatalogues
from service.planning.measurements.importing import import_measurements
from service.planning.planner import Planner


class Measuring:
    """A planner, and its database."""

    def __init__(self, database: Engine) -> None:
        self.database = database
        self.planner = Planner(StoredCatalogues(database, refresh_s=0.0))

    def bring(self, text: str, **hints: object) -> ImportedMeasurements:
        """Import what a program printed."""
        return import_measurements(self.planner, self.database, text, MeasurementHints.model_validate(hints))


@pytest.fixture
def measuring(seeded_database: Engine) -> Measuring:
    """Nothing was measured yet."""
    return Measuring(seeded_database)
