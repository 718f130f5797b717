"""The application: opens the database and the planner, mounts the shells."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import structlog
from anyio import CapacityLimiter
from fastapi import Depends, FastAPI
from starlette.middleware.cors import CORSMiddleware

from service import __version__
from service.planning.access.ring import KeyRing
from service.planning.batch.limits import Limits
from service.planning.batch.processes import BatchProcesses
from service.planning.batch.stored import stored_planner
from service.planning.catalogues import StoredCatalogues
from service.planning.kept_graphs import keep_graphs
from service.planning.model_hosts import RemoteModels
from service.planning.planner import Planner
from service.planning.queue.jobs import BatchJobs
from service.planning.time_limit import OutOfTime
from service.settings import Settings
from service.shells.rest import (
    audit,
    batch,
    batches,
    compare,
    curves,
    documentation,
    gpus,
    health,
    measurements,
    metrics,
    models,
    plan,
    plans,
    problems,
    recommend,
    rigs,
)  # fmt: skip
from service.shells.rest.answer_limit import AnswerLimit, out_of_time
from service.shells.rest.body_limit import BodyLimit
from service.shells.rest.gate import HEADER, Gate
from service.shells.rest.kept_plans import KeptPlans
from service.shells.rest.openapi import DESCRIPTION, describe, operation_id
from service.shells.rest.plan_bytes import PlanBytes
from service.shells.rest.plan_threads import PLAN_THREADS
from service.shells.rest.problems import responses
from service.shells.rest.query import known_query
from service.shells.rest.rate_limits import RateLimits
from service.shells.rest.security_headers import SecurityHeaders
from service.shells.serving.access_log import access_log
from service.shells.serving.draining import CloseWhileDraining, Draining
from service.shells.serving.metrics import Metrics
from service.shells.serving.observed import Observed
from service.shells.serving.patience import Patience
from service.shells.serving.rate_exchange import exchanging
from service.shells.serving.tracing import tracing_of
from service.shells.web import page, sign_in
from service.store.database import open_database, shown_url

log = structlog.get_logger(__name__)

_SHELLS = (
    plan, batch, batches, plans, curves, compare, recommend, gpus, rigs, models, measurements, audit, health, problems,
    page, documentation, sign_in,
)  # fmt: skip
_WRITES = {
    "local": "needs a key; this machine itself needs none until the first is made with rigfit keys create",
    "never": "needs a key",
    "always": "open to everyone who reaches this service",
}
# no credentials: cookies are for the page of this service alone
_ACROSS_ORIGINS: dict[str, Any] = {
    "allow_methods": ["DELETE", "GET", "PATCH", "POST", "PUT"],
    "allow_headers": ["Authorization", "Content-Type", "Idempotency-Key", "If-Match", HEADER],
    "expose_headers": ["Content-Disposition", "ETag", "Location", "RateLimit", "RateLimit-Policy", "Retry-After"],
}
_READS = {False: "open to everyone who reaches this service", True: "needs a key"}


def create_app(settings: Settings) -> FastAPI:
    """Build the application; the database is opened when it starts and closed when it ends."""
    draining = Draining(settings.drain_s)
    counters = Metrics()
    limits = RateLimits.of(settings)
    tracing = tracing_of(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, object]]:
        database = open_database(settings.database_url, connections=settings.max_database_connections)
        app.state.database = database
        keep_graphs(settings.cache_folder, settings.cache_bytes)
        app.state.keys = KeyRing(database)
        app.state.remote = remote = RemoteModels(settings)
        app.state.planner = planner = Planner(
            StoredCatalogues(database, settings.catalogue_refresh_s),
            remote=lambda: remote,
            observer=tracing.observer(counters),
        )
        app.state.plan_bytes = PlanBytes(planner)
        app.state.plan_threads = CapacityLimiter(PLAN_THREADS)
        app.state.batch = processes = BatchProcesses(
            planner, partial(stored_planner, settings), settings.batch_processes
        )
        app.state.batch_limits = Limits(rows=settings.max_batch_rows)
        app.state.batch_jobs = BatchJobs.of(database, settings)
        log.info("access", writing=_WRITES[settings.writes_without_key], reading=_READS[settings.require_key_to_read])
        log.info("ready", database=shown_url(database))
        try:
            async with exchanging(limits, database):
                with draining.on_sigterm(), tracing.exporting(database):
                    yield {"patience": Patience.of(settings)}
        finally:
            processes.close()
            database.dispose()

    app = FastAPI(
        title="Rigfit", version=__version__, summary="Will this model fit on these GPUs, and how fast will it run?",
        description=DESCRIPTION, lifespan=lifespan, redoc_url=None, docs_url=None,
        generate_unique_id_function=operation_id, telemetry=tracing.telemetry,
    )  # fmt: skip
    app.state.draining = draining
    app.state.metrics = counters
    _guard(app, settings, draining, limits)
    _mount(app, settings)
    describe(app)
    # around everything, the answer to what fails included
    stack = SecurityHeaders(app.build_middleware_stack(), is_behind_tls=settings.behind_tls)
    app.middleware_stack = Observed(stack, counters, access_log(settings), tracing)
    return app


def _mount(app: FastAPI, settings: Settings) -> None:
    """Put the shells that the settings want under their addresses."""
    routers = [shell.router for shell in (*_SHELLS, *((metrics,) if settings.metrics else ()))]
    if settings.slack_signing_secret is not None:
        from service.shells.slack.endpoints import slack_router  # noqa: PLC0415 - most installations have no Slack

        routers.append(slack_router(settings, lambda: app.state.planner, lambda: app.state.database))
    problems.install_problem_handlers(app, routers)
    for router in routers:
        if router.include_in_schema:
            app.include_router(router, dependencies=[Depends(known_query)], responses=responses("invalid-request"))
        else:
            # what is for people reads its address itself, as the question that it states
            app.include_router(router)


def _guard(app: FastAPI, settings: Settings, draining: Draining, limits: RateLimits | None) -> None:
    """Put what looks at every request in front of the application; what is added last is asked first."""
    app.add_exception_handler(OutOfTime, out_of_time)
    app.add_middleware(KeptPlans)
    app.add_middleware(AnswerLimit, limit_s=settings.answer_s)
    app.add_middleware(
        BodyLimit,
        max_bytes=settings.max_request_bytes,
        max_upload_bytes=settings.max_upload_bytes,
        max_batch_bytes=settings.max_batch_bytes,
    )
    # a body is read for those alone who may send it
    app.add_middleware(Gate, settings=settings, limits=limits)
    if settings.cors_origins:
        # around the gate: a browser asks first whether it may send a key at all
        app.add_middleware(CORSMiddleware, allow_origins=settings.cors_origins, **_ACROSS_ORIGINS)
    app.add_middleware(CloseWhileDraining, draining=draining)
