"""Jobs on a real PostgreSQL, and processes that answer them."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from sqlalchemy import Engine

from service.planning.batch.processes import BatchProcesses
from service.planning.local import local_planner
from service.planning.queue.jobs import BatchJobs
from service.store.migrations import upgrade
from tests.databases import Databases, opened
from tests.working import jobs_of


@pytest.fixture(scope="session")
def processes() -> Iterator[BatchProcesses]:
    """A process that answers."""
    with closing(BatchProcesses(local_planner(), local_planner, 1)) as processes:
        yield processes


@pytest.fixture
def queue_database(postgresql: Databases) -> Iterator[Engine]:
    """A migrated PostgreSQL database."""
    with opened(postgresql.copy_of("migrated", upgrade)) as database:
        yield database


@pytest.fixture
def jobs(queue_database: Engine) -> BatchJobs:
    """The jobs of that database."""
    return jobs_of(queue_database)
