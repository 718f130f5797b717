"""GET /metrics: what Prometheus collects."""

from collections.abc import Iterator

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from service.planning.planner import Planner
from service.shells.rest.state import PlannerState
from service.shells.serving.metrics import Metrics

router = APIRouter(tags=["health"])


@router.get(
    "/metrics",
    summary="Metrics",
    response_description="Counters, in Prometheus' text format.",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
def get_metrics(request: Request, planner: PlannerState) -> Response:
    """Give what was counted since the start: requests, their time, problems, plans by engine; of all workers."""
    metrics: Metrics = request.app.state.metrics
    return Response(metrics.text(lambda: _gauges(planner)), media_type=CONTENT_TYPE_LATEST)


def _gauges(planner: Planner) -> Iterator[tuple[str, str, float]]:
    away = float(planner.catalogues.is_away)
    yield "rigfit_database_away", "Whether the worker that answers found no database when it last looked.", away
