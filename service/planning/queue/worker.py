"""A worker: takes entries of its release's queue, on any machine that shares the database, until it is told to stop."""

import asyncio
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeVar

import structlog
from procrastinate import App, JobContext, RetryStrategy
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import DeleteJobCondition
from psycopg import Error as DriverError
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from service.contract.problem import problem
from service.planning.batch.answering import Unreachable
from service.planning.queue.entries import ANSWER, READ
from service.planning.queue.release import RULES, queue_of
from service.planning.queue.upkeep import Upkeep
from service.planning.queue.work import BatchWork
from service.store.batches import Turn
from service.store.queue import queue_app

log = structlog.get_logger(__name__)
Given = TypeVar("Given")

_UNREACHABLE: Final = (SQLAlchemyError, Unreachable)
_LOST: Final = (ConnectorException, DriverError, SQLAlchemyError)
# waits of 0, 2, 4, … s: a database that takes no results for a quarter of an hour fails the job
_RETRY_LONGER_S: Final = 2
_MOST_ATTEMPTS: Final = 30
_AGAIN_S: Final = 1.0
_CONNECTION_WAIT_S: Final = 5.0
# entries are taken and ended in moments, however many are worked on
_CONNECTIONS: Final = 4
_POLL_S: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """silence: after which a worker that is not seen counts as gone; kept: how long ended jobs are."""

    processes: int
    silence: timedelta
    kept: timedelta


class Worker:
    """One worker; `run` until `stop`."""

    def __init__(self, database: Engine, work: BatchWork, options: WorkerOptions, rules_version: str = RULES) -> None:
        self._database = database
        self._work = work
        self._options = options
        self._queue = queue_of(rules_version)
        self._threads = ThreadPoolExecutor(options.processes + 1, thread_name_prefix="batch")
        self._stopping = asyncio.Event()
        self._upkeep = Upkeep(
            database, worker_id=secrets.token_hex(16), rules_version=rules_version, silence=options.silence,
            kept=options.kept,
        )  # fmt: skip

    def stop(self) -> None:
        """Begin nothing more and end with what was begun."""
        self._stopping.set()

    async def run(self) -> None:
        """Work until told to stop; a database that goes away is waited for."""
        while not self._stopping.is_set():
            app = self._app()
            try:
                await app.open_async()
                await self._until_stopped(app)
            except _LOST as failure:
                log.warning("the database does not answer", error=_cause(failure))
            finally:
                await _closed(app)
            if not self._stopping.is_set():
                await _first(self._stopping.wait(), asyncio.sleep(_AGAIN_S))
        await self._tried(self._upkeep.leave)
        self._threads.shutdown()

    async def _until_stopped(self, app: App) -> None:
        """Take entries until told to stop, or until the connection is lost; raises what was lost."""
        silence_s = self._options.silence.total_seconds()
        taking = asyncio.create_task(
            app.run_worker_async(
                queues=[self._queue], concurrency=self._options.processes, delete_jobs=DeleteJobCondition.ALWAYS,
                fetch_job_polling_interval=_POLL_S, update_heartbeat_interval=silence_s / 3,
                stalled_worker_timeout=silence_s, install_signal_handlers=False,
            )
        )  # fmt: skip
        keeping = asyncio.create_task(self._keep(app))
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait([taking, keeping, stopping], return_when=asyncio.FIRST_COMPLETED)
        # cancelled, it waits for what was begun
        for task in (taking, keeping, stopping):
            task.cancel()
        for ended in await asyncio.gather(taking, keeping, stopping, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended

    async def _keep(self, app: App) -> None:
        """Say that this worker lives, and see to what others left."""
        period_s = self._options.silence.total_seconds() / 3
        while True:
            await self._in_thread(self._upkeep.done)
            for job in await app.job_manager.get_stalled_jobs(
                queue=self._queue, seconds_since_heartbeat=self._options.silence.total_seconds()
            ):
                log.warning("a worker is gone; its rows are answered again", entry=job.task_kwargs)
                try:
                    await app.job_manager.retry_job(job)
                except ConnectorException:
                    log.info("another worker saw to it", entry=job.task_kwargs)
            await asyncio.sleep(period_s)

    def _app(self) -> App:
        url = self._database.url.render_as_string(hide_password=False)
        app = queue_app(url, _CONNECTIONS, _CONNECTION_WAIT_S)
        retry = RetryStrategy(linear_wait=_RETRY_LONGER_S)

        @app.task(name=READ, retry=retry, pass_context=True)
        async def read(context: JobContext, *, batch_id: str, restarts: int) -> None:
            turn = Turn(batch_id=batch_id, restarts=restarts)
            await self._done(context, turn, lambda: self._work.read(turn))

        @app.task(name=ANSWER, retry=retry, pass_context=True)
        async def answer(context: JobContext, *, batch_id: str, restarts: int, first_row: int) -> None:
            turn = Turn(batch_id=batch_id, restarts=restarts)
            await self._done(context, turn, lambda: self._work.answer(turn, first_row))

        return app

    async def _done(self, context: JobContext, turn: Turn, do: Callable[[], None]) -> None:
        """Do one entry; raises only what another attempt may do without, anything else fails the job."""
        if context.job.attempts >= _MOST_ATTEMPTS:
            detail = f"The batch was given up after {_MOST_ATTEMPTS} attempts at the same rows."
            await self._in_thread(lambda: self._work.fail(turn, problem("internal-error", detail)))
            return
        try:
            await self._in_thread(do)
        except _UNREACHABLE:
            raise
        except Exception:
            log.exception("a batch failed", batch=turn.batch_id)
            why = problem("internal-error", "The service failed on this batch; the cause is in its log.")
            await self._in_thread(lambda: self._work.fail(turn, why))

    async def _in_thread(self, do: Callable[[], Given]) -> Given:
        return await asyncio.get_running_loop().run_in_executor(self._threads, do)

    async def _tried(self, do: Callable[[], None]) -> None:
        try:
            await self._in_thread(do)
        except SQLAlchemyError as failure:
            log.warning("the database does not answer", error=_cause(failure))


async def _first(*awaited: Any) -> None:
    """Wait for the first of several, and drop the others."""
    tasks = [asyncio.ensure_future(some) for some in awaited]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()


async def _closed(app: App) -> None:
    try:
        await app.close_async()
    except _LOST as failure:
        log.warning("the database does not answer", error=_cause(failure))


def _cause(failure: BaseException) -> str:
    """What the driver said, which the queue's library keeps behind a sentence of its own."""
    return str(failure.__cause__ or failure)
