"""GET /plans/{id}/curves and POST /plan/curves: what charts draw."""

from fastapi import APIRouter, Depends, Request, Response

from service.contract.curves import Curves
from service.contract.request import PlanRequest
from service.contract.validation import validate_request
from service.planning.curves import curves_of
from service.planning.saved import find_plan
from service.shells.rest.media import require_json
from service.shells.rest.plan import BODY_PROBLEMS, PLAN_PROBLEMS
from service.shells.rest.plan_threads import in_plan_thread
from service.shells.rest.problems import Refusal, responses
from service.shells.rest.state import DatabaseState, PlannerState

router = APIRouter(tags=["plans"])


@router.post(
    "/plan/curves",
    summary="Curves through a plan",
    response_description="Decode and prefill over depth, streams, memory over context.",
    response_model=Curves,
    responses=responses(*BODY_PROBLEMS),
    dependencies=[Depends(require_json)],
)
async def post_curves(request: Request, asked: PlanRequest, planner: PlannerState) -> Response:
    """Say how speed and memory of one plan move with depth, users and context. Nothing is stored."""
    return _json(await in_plan_thread(request, curves_of, planner.plan, asked))


@router.get(
    "/plans/{plan_id}/curves",
    summary="Curves through a kept plan",
    response_description="Decode and prefill over depth, streams, memory over context.",
    response_model=Curves,
    responses=responses("not-found", *PLAN_PROBLEMS),
)
def get_curves(plan_id: str, planner: PlannerState, database: DatabaseState) -> Response:
    """Say the same of a kept plan's question, by the rules, data and measurements of today, as `plan_id` tells."""
    kept = find_plan(database, plan_id)
    if kept is None:
        raise Refusal("not-found", f"There is no saved plan {plan_id[:80]!r}.")
    return _json(curves_of(planner.plan, validate_request(kept.request)))


def _json(curves: Curves) -> Response:
    return Response(curves.model_dump_json(), media_type="application/json")
