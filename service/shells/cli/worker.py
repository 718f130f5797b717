"""`rigfit worker`."""

import asyncio
import logging
import signal
from contextlib import closing
from datetime import timedelta
from functools import partial
from typing import Any

import structlog
from procrastinate.exceptions import ConnectorException
from sqlalchemy import make_url

from service.core.problems import Unsupported
from service.planning.batch.limits import Limits
from service.planning.batch.processes import BatchProcesses
from service.planning.batch.stored import StoredPlans
from service.planning.queue.work import BatchWork
from service.planning.queue.worker import Worker, WorkerOptions
from service.settings import Settings, settings
from service.shells.logs import configure_logs
from service.shells.serving.worker_metrics import WorkerMetrics
from service.store.database import open_database, shown_url

log = structlog.get_logger(__name__)


def worker(processes: int | None) -> None:
    """Answer batches until interrupted, with so many processes or as the settings say; raises Unsupported."""
    chosen = settings()
    if make_url(chosen.database_url).get_backend_name() == "sqlite":
        raise Unsupported("Workers share a queue in PostgreSQL: set RIGFIT_DATABASE_URL to postgresql+psycopg://…")
    configure_logs(chosen)
    # it tells of each chunk three times
    logging.getLogger("procrastinate").setLevel(logging.WARNING)
    # what it says of each lost connection is said here once
    logging.getLogger("procrastinate.utils").setLevel(logging.CRITICAL)
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
    asyncio.run(_worked(chosen, processes or chosen.batch_processes))


async def _worked(chosen: Settings, processes: int | None) -> None:
    database = open_database(chosen.database_url, connections=chosen.max_database_connections)
    prepare = partial(StoredPlans, chosen)
    metrics = WorkerMetrics()
    with (
        metrics.served(chosen.host, chosen.worker_metrics_port),
        closing(BatchProcesses(prepare(), prepare, processes)) as started,
    ):
        work = BatchWork(database, started, Limits(rows=chosen.max_batch_rows), metrics)
        options = WorkerOptions(
            processes=started.count,
            silence=timedelta(seconds=chosen.worker_silence_s),
            kept=timedelta(seconds=chosen.batch_kept_s),
        )
        running = Worker(database, work, options)
        loop = asyncio.get_running_loop()

        def stop(by: signal.Signals) -> None:
            log.info("stopping after what was begun", signal=by.name)
            running.stop()
            # a second one does not wait
            for name in _ENDING:
                loop.remove_signal_handler(name)

        for name in _ENDING:
            loop.add_signal_handler(name, stop, name)
        loop.set_exception_handler(_left_behind)
        log.info("working", database=shown_url(database), processes=started.count)
        await running.run()
    database.dispose()


def _left_behind(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Pass over what a lost connection left of the queue's tasks: their entries are taken again."""
    if not isinstance(context.get("exception"), ConnectorException):
        loop.default_exception_handler(context)


_ENDING = (signal.SIGTERM, signal.SIGINT)
