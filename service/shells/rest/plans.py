"""POST /plans and GET /plans/{id}: plans that are kept."""

import json

from fastapi import APIRouter, Depends, Request, Response

from service.contract.plan import Plan
from service.contract.request import PlanRequest
from service.planning.saved import find_plan, keep_plan
from service.shells.rest.media import require_json
from service.shells.rest.plan import BODY_PROBLEMS
from service.shells.rest.problems import Refusal, responses
from service.shells.rest.state import DatabaseState, PlannerState
from service.shells.web.saved import HTML, missing_page, prefers_page, saved_page

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
    response_description="The plan as it was answered, or a page about it for a browser.",
    response_model=Plan,
    responses=responses("not-found", "not-ready") | {200: {"content": {HTML: {"schema": {"type": "string"}}}}},
)
def get_saved_plan(plan_id: str, request: Request, database: DatabaseState) -> Response:
    """Give a kept plan as it was answered."""
    kept = find_plan(database, plan_id)
    missing = f"There is no saved plan {plan_id[:80]!r}."
    if prefers_page(request):
        answer = missing_page(missing) if kept is None else saved_page(request, kept)
    elif kept is None:
        raise Refusal("not-found", missing, headers={"Vary": "Accept"})
    else:
        answer = Response(json.dumps(kept.plan), media_type="application/json")
    answer.headers["Vary"] = "Accept"
    return answer
