"""POST /plan/batch: many questions as JSON, JSON Lines, CSV or a workbook, answered as the same, now or later."""

import json
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal, cast

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from service.contract.batches import Batch
from service.contract.plan import Plan
from service.contract.problem import Problem
from service.contract.request import EXAMPLE_REQUEST
from service.core.problems import InvalidRequest
from service.planning.batch.csv_reading import Dialect, read_csv
from service.planning.batch.csv_writing import csv_chunks
from service.planning.batch.documents import answered_documents, answered_lines, read_documents, read_lines
from service.planning.batch.layout import Layout
from service.planning.batch.limits import Limits
from service.planning.batch.processes import BatchProcesses
from service.planning.batch.rows import answered_rows
from service.planning.batch.xlsx_reading import read_xlsx
from service.planning.batch.xlsx_template import template
from service.planning.batch.xlsx_writing import xlsx_chunks
from service.planning.queue.jobs import BatchJobs
from service.planning.queue.sent_once import SentOnce
from service.shells.rest.batches import JobsState
from service.shells.rest.caller import who_of
from service.shells.rest.media import CSV, JSON, JSONL, XLSX, is_json, is_lines, media_type_of, unsupported_media
from service.shells.rest.problems import responses
from service.shells.rest.state import PlannerState

router = APIRouter(tags=["plans"])

TableForm = Literal["csv", "xlsx"]
_FORMS: Final[dict[str, TableForm]] = {CSV: "csv", XLSX: "xlsx"}
_FORMAT: Final = "How the rows of a table are given back; by default as they came."
_QUEUE: Final = "Keep what is sent for workers to answer, and answer 202 at once."
_ONCE: Final = (
    "With queue: a text of your choice under which this upload is one batch, however often you send it, for as long as "
    "that batch is kept. What is answered at once is kept nowhere and needs none."
)
# what HTTP allows in a field's value, less what no two readers agree on. Source: RFC 9110, 5.5
OnceHeader = Annotated[str | None, Header(alias="Idempotency-Key", pattern=r"^[\x21-\x7e]{1,255}$", description=_ONCE)]
_QUEUED: Final[dict[str, Any]] = {
    "model": Batch,
    "description": "A batch that workers answer.",
    "headers": {"Location": {"description": "Address of the batch.", "schema": {"type": "string"}}},
}
_EXAMPLE_CSV: Final = "model,gpus,context_tokens\r\nllama-3.3-70b:Q4_K_M,2x rtx-3090,16384\r\n"


class BatchLine(BaseModel):
    """Answer to one request of a batch: a plan or a problem."""

    model_config = ConfigDict(extra="forbid")

    plan: Plan | None = Field(None, description="The plan; absent where there is a problem.")
    problem: Problem | None = Field(None, description="The problem; absent where there is a plan.")


async def _processes(request: Request) -> BatchProcesses:
    return cast("BatchProcesses", request.app.state.batch)


async def _limits(request: Request) -> Limits:
    return cast("Limits", request.app.state.batch_limits)


ProcessesState = Annotated[BatchProcesses, Depends(_processes)]
LimitsState = Annotated[Limits, Depends(_limits)]
_OTHER_BODIES: Final[dict[str, Any]] = {
    JSONL: {"schema": {"type": "string"}, "example": json.dumps(EXAMPLE_REQUEST) + "\n"},
    CSV: {"schema": {"type": "string"}, "example": _EXAMPLE_CSV},
    XLSX: {"schema": {"type": "string", "format": "binary"}},
}


@router.post(
    "/plan/batch",
    summary="Plan many questions at once",
    response_description="One plan or problem for each request, in their order; or the rows, with answers behind them.",
    response_model=list[BatchLine],
    response_model_exclude_unset=True,
    responses=responses(
        "idempotency-key-reused",
        "invalid-request",
        "not-ready",
        "rate-limited",
        "too-large",
        "unsupported",
        "unsupported-media",
    )
    | {200: {"content": {kind: {"schema": body["schema"]} for kind, body in _OTHER_BODIES.items()}}, 202: _QUEUED},
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                JSON: {"schema": {"type": "array", "items": {}, "examples": [[EXAMPLE_REQUEST]]}},
                **_OTHER_BODIES,
            },
        }
    },
)
async def post_batch(
    request: Request,
    processes: ProcessesState,
    limits: LimitsState,
    jobs: JobsState,
    form: Annotated[TableForm | None, Query(alias="format", description=_FORMAT)] = None,
    queue: Annotated[bool, Query(description=_QUEUE)] = False,
    once: OnceHeader = None,
) -> Response:
    """Answer many questions over all processors; what comes in goes out as it is answered.

    A JSON list gives a list: a plan or a problem for each request. A CSV (any delimiter, decimal commas, UTF-8, UTF-16
    or Windows-1252) or a workbook gives its rows with columns of answers behind them; columns are called as the
    parameters of `GET /plan` or as people call them (gpu, context, ngl, psu), others are kept as they are, and a row
    that cannot be answered says why in the column `problem`. Rows uploaded again are answered anew. JSON Lines give
    lines. With `queue=true` it becomes a batch in the database's queue, which `rigfit worker` answers on any machine
    that shares the database: follow it at the address in Location.
    """
    content = await request.body()
    came_as = _FORMS.get(media_type_of(request))
    documents_as = "json" if is_json(request) else "jsonl" if is_lines(request) else None
    if came_as is None and documents_as is None:
        raise unsupported_media(request, JSON, JSONL, CSV, XLSX)
    if documents_as is not None and form is not None:
        raise InvalidRequest("JSON is answered as it came; format is for tables.", fields=("format",))
    if queue:
        sent_once = None if once is None else SentOnce(caller=who_of(request.scope), key=once)
        return await run_in_threadpool(_queued, content, documents_as or came_as, form, sent_once, jobs)
    if documents_as == "json":
        documents = await run_in_threadpool(read_documents, content, limits)
        return StreamingResponse(answered_documents(documents, processes), media_type=JSON)
    if came_as is None:
        lines = await run_in_threadpool(read_lines, content, limits)
        return StreamingResponse(answered_lines(lines, processes), media_type=JSONL)
    return await run_in_threadpool(_table_answer, content, came_as, form or came_as, processes, limits)


def _queued(content: bytes, kind: str | None, form: str | None, once: SentOnce | None, jobs: BatchJobs) -> Response:
    """Keep the upload for workers."""
    queued = jobs.submit(content, str(kind), form, once)
    return JSONResponse(queued.model_dump(mode="json"), status_code=202, headers={"Location": f"/batches/{queued.id}"})


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
    responses=responses("not-ready") | {200: {"content": {XLSX: _OTHER_BODIES[XLSX]}}},
)
def get_template(request: Request, planner: PlannerState) -> Response:
    """Give a workbook whose formulas ask this service, for Excel and LibreOffice; its address is in a cell."""
    models = [f"{model.name}:{quant}" for model in planner.catalogues.models.search() for quant in model.quants]
    content = template(str(request.base_url).rstrip("/"), models, sorted(planner.catalogues.gpus.names.records))
    return Response(content, media_type=XLSX, headers={"Content-Disposition": 'attachment; filename="rigfit.xlsx"'})
