"""POST /plans and GET /plans/{id}: plans that are kept."""

import json

from fastapi import APIRouter, Depends, Response

from service.contract.plan import Plan
from service.contract.request import PlanRequest
from service.planning.saved import find_plan, keep_plan
from service.shells.rest.media import require_json
from service.shells.rest.plan import BODY_PROBLEMS
from service.shells.rest.problems import Refusal, responses
from service.shells.rest.state import DatabaseState, PlannerState

router = APIRouter(tags=["plans"])


@router.post(
    "/plans",
    summary="Plan and keep the answer",
    response_description="The plan, kept at the address in Location.",
    status_code=201,
    response_model=Plan,
    responses=responses(*BODY_PROBLEMS)
    | {201: {"headers": {"Location": {"description": "Address of the saved plan.", "schema": {"type": "string"}}}}},
    dependencies=[Depends(require_json)],
)
def post_plans(request: PlanRequest, planner: PlannerState, database: DatabaseState) -> Response:
    """Answer one question and keep question and answer; the same question has the same address."""
    kept = keep_plan(database, planner, request)
    return Response(
        json.dumps(kept.plan),
        status_code=201,
        media_type="application/json",
        headers={"Location": f"/plans/{kept.id}"},
    )


@router.get(
    "/plans/{plan_id}",
    summary="A kept plan",
    response_description="The plan as it was answered.",
    response_model=Plan,
    responses=responses("not-found", "not-ready"),
)
def get_saved_plan(plan_id: str, database: DatabaseState) -> Response:
    """Give a kept plan as it was answered."""
    kept = find_plan(database, plan_id)
    if kept is None:
        raise Refusal("not-found", f"There is no saved plan {plan_id[:80]!r}.")
    return Response(json.dumps(kept.plan), media_type="application/json")
