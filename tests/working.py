"""Workers of batches in a thread of this process, on a real PostgreSQL."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from threading import Thread

from sqlalchemy import Engine

from service.contract.batches import Batch
from service.planning.batch.limits import Limits
from service.planning.batch.processes import BatchProcesses
from service.planning.queue.jobs import BatchJobs
from service.planning.queue.release import RULES
from service.planning.queue.work import BatchWork
from service.planning.queue.worker import Worker, WorkerOptions

SILENCE = timedelta(seconds=1.5)
PATIENCE_S = 60.0


def work_on(database: Engine, processes: BatchProcesses) -> BatchWork:
    """What a worker on a database does."""
    return BatchWork(database, processes, Limits(rows=50_000))


def jobs_of(database: Engine, most_unfinished: int = 100) -> BatchJobs:
    """The jobs of a database."""
    return BatchJobs(database=database, most_unfinished=most_unfinished, silence=SILENCE)


@contextmanager
def working(
    database: Engine, processes: BatchProcesses, rules_version: str = RULES, kept: timedelta = timedelta(days=1)
) -> Iterator[None]:
    """A worker of a release, until the end of the block."""
    options = WorkerOptions(processes=2, silence=SILENCE, kept=kept)
    with ExitStack() as ending:
        loop = asyncio.new_event_loop()
        ending.callback(loop.close)
        worker = Worker(database, work_on(database, processes), options, rules_version)
        thread = Thread(target=loop.run_until_complete, args=(worker.run(),))
        thread.start()
        ending.callback(thread.join)
        ending.callback(loop.call_soon_threadsafe, worker.stop)
        yield


def when(jobs: BatchJobs, batch_id: str, is_so: Callable[[Batch], bool]) -> Batch:
    """A job once something is so; raises TimeoutError where it never is."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        batch = jobs.batch(batch_id)
        if is_so(batch):
            return batch
        time.sleep(0.02)
    raise TimeoutError(f"after {PATIENCE_S} s: {jobs.batch(batch_id)}")


def ended(jobs: BatchJobs, batch_id: str) -> Batch:
    """A job at its end."""
    return when(jobs, batch_id, lambda batch: batch.ended_at is not None)
