"""The application on a seeded database, in process, and its pages read as documents."""

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from service.app import create_app
from service.settings import Settings
from tests.databases import Databases, migrate_and_seed


@pytest.fixture(scope="session")
def client(sqlite: Databases) -> Iterator[TestClient]:
    """A client of the application."""
    settings = Settings(database_url=sqlite.copy_of("seeded", migrate_and_seed), model_hosts=())
    with TestClient(create_app(settings)) as client:
        yield client
