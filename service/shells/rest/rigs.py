"""GET /rigs, GET /rigs/{slug} and POST /rigs/parse: rigs by name, and rigs from what tools print."""

from typing import Any

from anyio import from_thread
from fastapi import APIRouter, Request

from service.catalog.rig_presets import RigPreset, rig_preset, rig_presets
from service.contract.rigs import EXAMPLE_OUTPUT, ParsedRig, ParseRequest, RigSummary
from service.contract.validation import parse_as, validate_as
from service.planning.tool_output import parse_rig
from service.shells.rest.media import JSON, TEXT, is_json, is_text, unsupported_media
from service.shells.rest.problems import responses
from service.shells.rest.state import PlannerState

router = APIRouter(tags=["catalogue"])

_BODY: dict[str, Any] = {
    "required": True,
    "content": {
        JSON: {"schema": {"$ref": "#/components/schemas/ParseRequest"}},
        TEXT: {"schema": {"type": "string"}, "example": EXAMPLE_OUTPUT},
    },
}


@router.get("/rigs", summary="List rigs", response_description="Rigs by slug.")
def get_rigs() -> list[RigSummary]:
    """List the rigs that a request can name as `rig.preset`."""
    return [_summary(preset) for preset in rig_presets().values()]


@router.get(
    "/rigs/{slug}", summary="One rig", response_description="What it consists of.", responses=responses("unknown-rig")
)
def get_rig(slug: str) -> RigSummary:
    """Show one rig that a request can name."""
    return _summary(rig_preset(slug))


@router.post(
    "/rigs/parse",
    summary="Read a rig from what tools print",
    response_description="The rig, to be used in a request.",
    responses=responses(
        "contradiction", "invalid-request", "not-ready", "too-large", "unknown-gpu", "unsupported-media"
    ),
    openapi_extra={"requestBody": _BODY},
)
def post_rigs_parse(request: Request, planner: PlannerState) -> ParsedRig:
    """Read the output of nvidia-smi, rocm-smi or llama-server --list-devices, pasted as text or stated in JSON."""
    if is_json(request):
        asked = parse_as(ParseRequest, from_thread.run(request.body))
    elif is_text(request):
        asked = validate_as(ParseRequest, {"text": from_thread.run(request.body).decode("utf-8", errors="replace")})
    else:
        raise unsupported_media(request, JSON, TEXT)
    return parse_rig(asked, planner.catalogues.gpus)


def _summary(preset: RigPreset) -> RigSummary:
    return RigSummary(
        slug=preset.slug,
        name=preset.name,
        description=preset.description,
        source=preset.source,
        as_of=preset.as_of,
        rig=dict(preset.rig),
    )
