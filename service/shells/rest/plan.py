"""POST /plan and GET /plan: questions answered without writing anything."""

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import PlainTextResponse
from fastapi.routing import APIRoute

from service.contract.json_bytes import json_bytes
from service.contract.plan import Plan
from service.contract.plan_query import PlanQuery, request_of_query
from service.contract.problem import problem_of
from service.core.problems import PlanProblem
from service.planning.cell_value import text_of_field
from service.planning.planner import Planner
from service.planning.row import csv_of_plan
from service.shells.rest.media import JSON, require_json
from service.shells.rest.plan_threads import in_plan_thread
from service.shells.rest.problems import responses
from service.shells.rest.query import known_query
from service.shells.rest.state import PlannerState, plan_bytes_of

router = APIRouter(tags=["plans"])

PLAN_PROBLEMS = (
    "contradiction", "forbidden-host", "invalid-request", "model-host-timeout", "model-host-unavailable", "not-ready",
    "rate-limited", "took-too-long", "too-large", "unauthorized", "unknown-engine", "unknown-gpu", "unknown-model",
    "unknown-rig", "unreadable-model", "unsupported",
)  # fmt: skip
BODY_PROBLEMS = (*PLAN_PROBLEMS, "unsupported-media")


_BODY: Final = {
    "required": True,
    "content": {JSON: {"schema": {"$ref": "#/components/schemas/PlanRequest"}}},
}


def json_response(plan: Plan) -> Response:
    """Serialise a plan, once."""
    return Response(json_bytes(plan), media_type="application/json")


async def post_plan(request: Request) -> Response:
    """Answer one question: where every byte goes, whether it fits, how fast it will run. Nothing is stored."""
    request.scope["route"] = PLAN_ROUTE
    # called, not depended on: what the framework does for a dependency takes longer than reading the question
    await known_query(request)
    await require_json(request)
    plans, body = plan_bytes_of(request), await request.body()
    # what was asked before is sent at once; what has to be planned must not hold up other connections
    answer = plans.again(body) or await in_plan_thread(request, plans.plan, body)
    return Response(answer, media_type=JSON)


# of two routes the first answers and the second describes: what FastAPI does around an endpoint takes 60 to 80 µs
router.add_route("/plan", post_plan, methods=["POST"], include_in_schema=False)
router.post(
    "/plan",
    summary="Plan a model on a rig",
    response_description="The plan, whether it fits or not.",
    response_model=Plan,
    responses=responses(*BODY_PROBLEMS),
    openapi_extra={"requestBody": _BODY},
)(post_plan)
PLAN_ROUTE: Final = next(route for route in router.routes if isinstance(route, APIRoute))
"""What metrics, traces and the log call such a request, and where it is read which parameters there are."""


@router.get(
    "/plan",
    summary="Plan a model on a rig, from query parameters",
    response_description="The plan, whether it fits or not.",
    response_model=Plan,
    responses=responses(*PLAN_PROBLEMS)
    | {200: {"content": {"text/csv": {"schema": {"type": "string"}}, "text/plain": {"schema": {"type": "string"}}}}},
)
async def get_plan(request: Request, query: Annotated[PlanQuery, Query()], planner: PlannerState) -> Response:
    """Answer one question stated as query parameters, for spreadsheets.

    `format=csv` gives a header and one row; `field=decode_tokens_per_s` one bare value, for `WEBSERVICE()`,
    `IMPORTDATA()` and shells.
    """
    return await in_plan_thread(request, _answer, query, planner)


def _answer(query: PlanQuery, planner: Planner) -> Response:
    try:
        return _stated(planner.plan(request_of_query(query)), query)
    except PlanProblem as refused:
        if query.problems == "json":
            raise
        answer = problem_of(refused)
        return PlainTextResponse(f"#{answer.title}: {answer.detail}")


def _stated(plan: Plan, query: PlanQuery) -> Response:
    if query.field is not None:
        return PlainTextResponse(text_of_field(plan, query.field))
    if query.format == "csv":
        return Response(csv_of_plan(plan), media_type="text/csv; charset=utf-8")
    return json_response(plan)
