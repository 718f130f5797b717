"""POST /measurements, GET /measurements and GET /calibration: what was measured, and what it moves."""

from typing import Annotated, Any, get_args

from anyio import from_thread
from fastapi import APIRouter, Depends, Query, Request, Response

from service.contract.measurements import (
    Calibration,
    ImportedMeasurements,
    MeasurementDocument,
    MeasurementHints,
    MeasurementList,
    MeasurementQuery,
    Withdrawal,
)
from service.contract.rig import BackendName
from service.contract.validation import validate_as
from service.core.problems import InvalidRequest
from service.measurements.text import decoded
from service.planning.measurements.importing import import_measurements
from service.planning.measurements.stored import listed_measurements
from service.planning.measurements.withdrawing import withdraw_measurement
from service.shells.rest.media import FORM, JSON, TEXT, is_form, is_text, require_json, unsupported_media
from service.shells.rest.multipart import MultipartBody
from service.shells.rest.problems import responses
from service.shells.rest.state import DatabaseState, PlannerState

router = APIRouter(tags=["measurements"])

_EXAMPLE = """\
| model                          |       size |     params | backend    | ngl |            test |                  t/s |
| ------------------------------ | ---------: | ---------: | ---------- | --: | --------------: | -------------------: |
| llama 8B Q4_K - Medium         |   4.58 GiB |     8.03 B | CUDA       |  99 |           tg128 |        141.12 ± 0.21 |

build: 2b2afade (8829)
"""
_TEXT: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": 400, "description": "As the query parameter."}
_FORM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["file"],
    "additionalProperties": False,
    "properties": {
        "file": {
            "type": "array",
            "minItems": 1,
            "items": {"type": "string", "format": "binary"},
            "description": "What a benchmark printed, as it stands.",
        },
        "model": _TEXT,
        "gpu": {"type": "array", "maxItems": 64, "items": _TEXT},
        "backend": {**_TEXT, "enum": get_args(BackendName)},
        "source": _TEXT,
    },
}
_PRINTED: dict[str, Any] = {"schema": {"type": "string"}, "example": _EXAMPLE}
_BODY: dict[str, Any] = {
    "required": True,
    "content": {
        TEXT: _PRINTED,
        JSON: {"schema": {}, "example": [{"model_type": "llama 8B Q4_K - Medium", "avg_ts": 141.12, "n_gen": 128}]},
        "text/csv": {"schema": {"type": "string"}},
        "application/x-ndjson": {"schema": {"type": "string"}},
        FORM: {"schema": _FORM_SCHEMA},
    },
}
_LIST_FIELDS = frozenset({"gpu"})


@router.post(
    "/measurements",
    summary="Bring measurements in",
    response_description="Every figure that was read; some of them are new.",
    status_code=201,
    response_model=ImportedMeasurements,
    responses=responses(
        "invalid-request", "not-ready", "too-large", "unknown-gpu", "unknown-model", "unsupported-media"
    )
    | {200: {"model": ImportedMeasurements, "description": "Every figure that was read; all of them were known."}},
    openapi_extra={"requestBody": _BODY},
)
def post_measurements(
    request: Request,
    hints: Annotated[MeasurementHints, Query()],
    planner: PlannerState,
    database: DatabaseState,
) -> Response:
    """Read what llama-bench (JSON, JSON Lines, CSV, SQL or its table), llama-batched-bench or vllm bench printed.

    Text around it does no harm. Figures that cannot be matched, are impossible, unsteady or contradict an earlier one
    are kept apart with the reason and change nothing.
    """
    if is_form(request):
        content, hints = _form(request, hints)
    elif is_text(request):
        content = decoded(from_thread.run(request.body))
    else:
        raise unsupported_media(request, TEXT, JSON, "text/csv", FORM)
    found = import_measurements(planner, database, content, hints)
    is_new = found.known < len(found.measurements)
    return Response(found.model_dump_json(), status_code=201 if is_new else 200, media_type=JSON)


@router.get(
    "/measurements",
    summary="List measurements",
    response_description="A page of them, the newest first.",
    responses=responses("invalid-request", "not-ready"),
)
def get_measurements(query: Annotated[MeasurementQuery, Query()], database: DatabaseState) -> MeasurementList:
    """List what was measured, with what became of it and why."""
    return listed_measurements(database, query)


@router.post(
    "/measurements/{measurement_id}/withdraw",
    summary="Withdraw a measurement",
    response_description="The measurement, quarantined.",
    responses=responses("invalid-request", "not-found", "not-ready", "too-large", "unsupported-media"),
    dependencies=[Depends(require_json)],
)
def post_withdraw(
    measurement_id: str, withdrawal: Withdrawal, planner: PlannerState, database: DatabaseState
) -> MeasurementDocument:
    """Learn nothing from a measurement any more, for good: it stays, quarantined as `withdrawn` with the reason.

    Measurements that were quarantined because they contradicted it are judged again without it.
    """
    return withdraw_measurement(planner.catalogues, database, measurement_id, withdrawal.reason)


@router.get(
    "/calibration",
    summary="What measurements move",
    response_description="Factors by level, with the measurements behind them.",
    responses=responses("not-ready"),
)
def get_calibration(planner: PlannerState) -> Calibration:
    """Show what predictions of each backend, card, model and configuration are multiplied by, and why."""
    return planner.calibration()


def _form(request: Request, hints: MeasurementHints) -> tuple[str, MeasurementHints]:
    """Files of a form one after the other, and its other fields in place of the query's parameters."""
    chunks = iter([from_thread.run(request.body), b"", b""])
    files: list[str] = []
    fields: dict[str, Any] = {}
    for part in MultipartBody(request.headers["content-type"], chunks.__next__).parts():
        name = part.head.name
        if name == "file":
            files.append(decoded(part.content()))
        elif name in _LIST_FIELDS:
            fields.setdefault(name, []).append(part.text(400))
        elif name in MeasurementHints.model_fields and name not in fields:
            fields[name] = part.text(400)
        else:
            raise InvalidRequest(f"{name[:80]!r} is no field of this form: send file, and perhaps model, gpu, backend.")
    if not files:
        raise InvalidRequest("The form has no field named file: send what a benchmark printed as file.")
    return "\n".join(files), validate_as(MeasurementHints, hints.model_dump() | fields)
