"""POST /compare: one question for several models, quants, rigs, contexts and engines."""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request, Response

from service.contract.compare import CompareRequest, Comparison
from service.planning.compare import comparison_of, csv_of_comparison
from service.shells.rest.media import require_json
from service.shells.rest.plan_threads import in_plan_thread
from service.shells.rest.problems import responses
from service.shells.rest.state import PlannerState

router = APIRouter(tags=["plans"])

Format = Annotated[Literal["json", "csv"], Query(description="json, or csv: a header and one line per row.")]


@router.post(
    "/compare",
    summary="Compare models, quants, rigs, contexts or engines",
    response_description="One row per combination, with its figures or its problem, and the best row by each measure.",
    response_model=Comparison,
    responses=responses(
        "invalid-request", "not-ready", "took-too-long", "too-large", "unknown-engine", "unsupported-media"
    )
    | {200: {"content": {"text/csv": {"schema": {"type": "string"}}}}},
    dependencies=[Depends(require_json)],
)
async def post_compare(
    request: Request,
    asked: CompareRequest,
    planner: PlannerState,
    format: Format = "json",  # noqa: A002
) -> Response:
    """Answer every combination of what varies; a combination that cannot be answered says why in its row."""
    table = await in_plan_thread(request, comparison_of, asked, planner)
    if format == "csv":
        return Response(csv_of_comparison(table), media_type="text/csv; charset=utf-8")
    return Response(table.model_dump_json(), media_type="application/json")
