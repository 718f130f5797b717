"""POST /plan/batch: many questions as JSON, CSV or a workbook, answered as the same."""

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal, cast

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from service.contract.plan import Plan
from service.contract.problem import Problem
from service.contract.request import EXAMPLE_REQUEST
from service.core.problems import InvalidRequest
from service.planning.batch.csv_reading import Dialect, read_csv
from service.planning.batch.csv_writing import csv_chunks
from service.planning.batch.documents import answered_documents, read_documents
from service.planning.batch.layout import Layout
from service.planning.batch.limits import Limits
from service.planning.batch.processes import BatchProcesses
from service.planning.batch.rows import answered_rows
from service.planning.batch.xlsx_reading import read_xlsx
from service.planning.batch.xlsx_template import template
from service.planning.batch.xlsx_writing import xlsx_chunks
from service.shells.rest.media import CSV, JSON, XLSX, is_json, media_type_of, unsupported_media
from service.shells.rest.problems import responses
from service.shells.rest.state import PlannerState

router = APIRouter(tags=["plans"])

TableForm = Literal["csv", "xlsx"]
_FORMS: Final[dict[str, TableForm]] = {CSV: "csv", XLSX: "xlsx"}
_FORMAT: Final = "How the rows of a table are given back; by default as they came."
_EXAMPLE_CSV: Final = "model,gpus,context_tokens\r\nllama-3.3-70b:Q4_K_M,2x rtx-3090,16384\r\n"


class BatchLine(BaseModel):
    """Answer to one request of a batch: a plan or a problem."""

    model_config = ConfigDict(extra="forbid")

    plan: Plan | None = Field(None, description="The plan; absent where there is a problem.")
    problem: Problem | None = Field(None, description="The problem; absent where there is a plan.")


def _processes(request: Request) -> BatchProcesses:
    return cast("BatchProcesses", request.app.state.batch)


def _limits(request: Request) -> Limits:
    return cast("Limits", request.app.state.batch_limits)


ProcessesState = Annotated[BatchProcesses, Depends(_processes)]
LimitsState = Annotated[Limits, Depends(_limits)]
_TABLE_BODIES: Final[dict[str, Any]] = {
    CSV: {"schema": {"type": "string"}, "example": _EXAMPLE_CSV},
    XLSX: {"schema": {"type": "string", "format": "binary"}},
}


@router.post(
    "/plan/batch",
    summary="Plan many questions at once",
    response_description="One plan or problem for each request, in their order; or the rows, with answers behind them.",
    response_model=list[BatchLine],
    response_model_exclude_unset=True,
    responses=responses("invalid-request", "not-ready", "too-large", "unsupported-media")
    | {200: {"content": {kind: {"schema": body["schema"]} for kind, body in _TABLE_BODIES.items()}}},
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                JSON: {"schema": {"type": "array", "items": {}, "examples": [[EXAMPLE_REQUEST]]}},
                **_TABLE_BODIES,
            },
        }
    },
)
async def post_batch(
    request: Request,
    processes: ProcessesState,
    limits: LimitsState,
    form: Annotated[TableForm | None, Query(alias="format", description=_FORMAT)] = None,
) -> Response:
    """Answer many questions over all processors; what comes in goes out as it is answered.

    A JSON list gives a list: a plan or a problem for each request. A CSV (any delimiter, decimal commas, UTF-8, UTF-16
    or Windows-1252) or a workbook gives its rows with columns of answers behind them; columns are called as the
    parameters of `GET /plan` or as people call them (gpu, context, ngl, psu), others are kept as they are, and a row
    that cannot be answered says why in the column `problem`. Rows uploaded again are answered anew.
    """
    content = await request.body()
    if is_json(request):
        if form is not None:
            raise InvalidRequest("A JSON list is answered as a JSON list; format is for tables.", fields=("format",))
        documents = await run_in_threadpool(read_documents, content, limits)
        return StreamingResponse(answered_documents(documents, processes), media_type=JSON)
    came_as = _FORMS.get(media_type_of(request))
    if came_as is None:
        raise unsupported_media(request, JSON, CSV, XLSX)
    return await run_in_threadpool(_table_answer, content, came_as, form or came_as, processes, limits)


def _table_answer(
    content: bytes, came_as: TableForm, goes_as: TableForm, processes: BatchProcesses, limits: Limits
) -> Response:
    table, dialect = (read_xlsx(content, limits), Dialect()) if came_as == "xlsx" else read_csv(content, limits)
    layout = Layout.of(table)
    rows = answered_rows(table, layout, processes)
    if goes_as == "xlsx":
        return _download(xlsx_chunks(layout.header, rows, len(layout.kept)), XLSX, "plans.xlsx")
    return _download(csv_chunks(layout.header, rows, dialect), f"{CSV}; charset=utf-8", "plans.csv")


def _download(chunks: Iterator[bytes], media_type: str, name: str) -> Response:
    return StreamingResponse(
        chunks, media_type=media_type, headers={"Content-Disposition": f'attachment; filename="{name}"'}
    )


@router.get(
    "/plan/template.xlsx",
    summary="A workbook to ask with",
    response_description="A workbook whose formulas ask this service.",
    response_class=Response,
    responses=responses("not-ready") | {200: {"content": {XLSX: _TABLE_BODIES[XLSX]}}},
)
def get_template(request: Request, planner: PlannerState) -> Response:
    """Give a workbook whose formulas ask this service, for Excel and LibreOffice; its address is in a cell."""
    models = [f"{model.name}:{quant}" for model in planner.catalogues.models.search() for quant in model.quants]
    content = template(str(request.base_url).rstrip("/"), models, sorted(planner.catalogues.gpus.names.records))
    return Response(content, media_type=XLSX, headers={"Content-Disposition": 'attachment; filename="rigfit.xlsx"'})
