"""The exchange of rates with other processes, beside the requests: none of them waits for it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import structlog
from anyio import CapacityLimiter, to_thread
from sqlalchemy import Engine

from service.planning.access.shared_rates import EXCHANGE_S, SharedRates
from service.shells.rest.rate_limits import RateLimits

log = structlog.get_logger(__name__)


@asynccontextmanager
async def exchanging(limits: RateLimits | None, database: Engine) -> AsyncIterator[None]:
    """Share the rates, if there are any, until the end of the block; on SQLite each process counts alone."""
    if limits is None or database.dialect.name != "postgresql":
        yield
        return
    exchange = asyncio.create_task(_exchange(SharedRates(database, limits.throttles)))
    try:
        yield
    finally:
        exchange.cancel()
        with suppress(asyncio.CancelledError):
            await exchange


async def _exchange(shared: SharedRates) -> None:
    # a thread of its own, so that a database that stands still takes none from requests
    thread = CapacityLimiter(1)
    while True:
        reports, learned = shared.reports(), None
        try:
            learned = await to_thread.run_sync(shared.exchanged, reports, limiter=thread, abandon_on_cancel=True)
        except Exception:
            # whatever it is, each process goes on by itself and the next exchange is tried
            log.exception("rates could not be shared")
        shared.settle(reports, learned)
        await asyncio.sleep(EXCHANGE_S)
