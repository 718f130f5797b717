"""GET /metrics: what Prometheus collects."""

from collections.abc import Iterator

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from service.planning.planner import Planner
from service.shells.rest.state import DatabaseState, PlannerState
from service.shells.serving.metrics import Gauge, Metrics
from service.store.batch_depth import queue_depth

router = APIRouter(tags=["health"])


@router.get(
    "/metrics",
    summary="Metrics",
    response_description="Counters, in Prometheus' text format.",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
def get_metrics(request: Request, planner: PlannerState, database: DatabaseState) -> Response:
    """Give what was counted since the start: requests, their time, problems, plans by engine; of all workers."""
    metrics: Metrics = request.app.state.metrics
    return Response(metrics.text(lambda: _gauges(planner, database)), media_type=CONTENT_TYPE_LATEST)


def _gauges(planner: Planner, database: Engine) -> Iterator[Gauge]:
    is_away = planner.catalogues.is_away
    yield Gauge("rigfit_database_away", "Whether this worker found no database when it last looked.", float(is_away))
    try:
        with Session(database) as session:
            depth = queue_depth(session)
    except SQLAlchemyError:
        return
    described = "Batches of the database that are unfinished; every replica says the same."
    yield Gauge("rigfit_batches", described, depth.queued, {"status": "queued"})
    yield Gauge("rigfit_batches", described, depth.running, {"status": "running"})
    yield Gauge("rigfit_batch_rows_waiting", "Rows of batches that have no answer yet.", depth.rows_waiting)
