"""Fixtures shared by all tests: a fresh database of each supported kind."""

import os
from collections.abc import Iterator
from typing import cast

import pytest
from hypothesis import HealthCheck, settings
from sqlalchemy import Engine

from service.store.migrations import upgrade
from tests.databases import Databases, SqliteDatabases, migrate_and_seed, opened, postgres_databases

# every answer is worked out here, whatever was before; tests of what is kept name a folder of their own
os.environ["RIGFIT_CACHE_BYTES"] = "0"

# how fast examples are made says how busy the machine is, not whether a rule holds
settings.register_profile("rigfit", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("rigfit")


@pytest.fixture(scope="session")
def sqlite(tmp_path_factory: pytest.TempPathFactory) -> Databases:
    """SQLite databases, as files."""
    return SqliteDatabases(tmp_path_factory.mktemp("sqlite"))


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Databases]:
    """Databases of a real PostgreSQL server."""
    with postgres_databases() as databases:
        yield databases


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def databases(request: pytest.FixtureRequest) -> Databases:
    """Run the test once on each supported kind of database."""
    return cast("Databases", request.getfixturevalue(request.param))


@pytest.fixture
def empty_database_url(databases: Databases) -> str:
    """Address of a database without a table."""
    return databases.copy_of("empty", lambda _: None)


@pytest.fixture
def database_url(databases: Databases) -> str:
    """Address of a migrated database without rows."""
    return databases.copy_of("migrated", upgrade)


@pytest.fixture
def seeded_database_url(databases: Databases) -> str:
    """Address of a database with every built-in card and model."""
    return databases.copy_of("seeded", migrate_and_seed)


@pytest.fixture
def empty_database(empty_database_url: str) -> Iterator[Engine]:
    """A database without a table."""
    with opened(empty_database_url) as engine:
        yield engine


@pytest.fixture
def database(database_url: str) -> Iterator[Engine]:
    """A migrated database without rows."""
    with opened(database_url) as engine:
        yield engine


@pytest.fixture
def seeded_database(seeded_database_url: str) -> Iterator[Engine]:
    """A database with every built-in card and model."""
    with opened(seeded_database_url) as engine:
        yield engine
