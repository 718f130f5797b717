"""GET /batches/{id}, its result and its end: batches that workers answer."""

from typing import Annotated, Any, Final, cast

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import StreamingResponse

from service.contract.batches import Batch
from service.planning.queue.jobs import BatchJobs
from service.planning.queue.uploads import KINDS
from service.shells.rest.problems import responses

router = APIRouter(tags=["batches"])


async def _jobs(request: Request) -> BatchJobs:
    return cast("BatchJobs", request.app.state.batch_jobs)


JobsState = Annotated[BatchJobs, Depends(_jobs)]
_RESULTS: Final[dict[str, Any]] = {
    kind.media_type: {"schema": {"type": "string"} | ({"format": "binary"} if name == "xlsx" else {})}
    for name, kind in KINDS.items()
    if name != "json"
} | {"application/json": {"schema": {"type": "array", "items": {}}}}


@router.get(
    "/batches/{batch_id}",
    summary="How far a batch is",
    response_description="Its state, and the address of its answers once it is finished.",
    responses=responses("not-found", "not-ready"),
)
def get_batch(batch_id: str, jobs: JobsState) -> Batch:
    """Tell how far a batch is."""
    return jobs.batch(batch_id)


@router.post(
    "/batches/{batch_id}/cancel",
    summary="Cancel a batch",
    response_description="Its state; a batch that ended before stays as it is.",
    responses=responses("not-found", "not-ready"),
)
def post_cancel(batch_id: str, jobs: JobsState) -> Batch:
    """Stop a batch within the chunk of rows that is worked on; its answers are not given any more."""
    return jobs.cancel(batch_id)


@router.get(
    "/batches/{batch_id}/result",
    summary="The answers of a batch",
    response_description="What was sent, row by row, with its answers.",
    response_class=Response,
    responses=responses("not-found", "not-ready", "unfinished") | {200: {"content": _RESULTS}},
)
def get_batch_result(batch_id: str, jobs: JobsState) -> Response:
    """Give the answers of a finished batch as what was sent: the same rows in their order, or a list, or lines."""
    result = jobs.result(batch_id)
    media_type = f"{result.media_type}; charset=utf-8" if result.media_type == "text/csv" else result.media_type
    return StreamingResponse(
        result.pieces,
        media_type=media_type,
        headers={"Content-Disposition": f'attachment; filename="{result.file_name}"'},
    )
