"""The catalogue of cards: GET and POST /gpus, GET, PUT and DELETE /gpus/{slug}."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Header, Query, Response

from service.catalog.gpu_documents import gpu_document, gpu_summary, search_gpus
from service.catalog.gpu_records import GpuRecord
from service.contract.cards import CardFacts
from service.contract.catalogue import GpuDocument, GpuSummary
from service.planning.card_edits import add_card, card_tag, change_card, remove_card
from service.shells.rest.media import JSON, require_json
from service.shells.rest.problems import responses
from service.shells.rest.state import DatabaseState, PlannerState

router = APIRouter(tags=["catalogue"])

IfMatch = Annotated[
    str | None, Header(max_length=2000, description="The ETag that was read; an edit without it is refused.")
]
ETAG: Final[dict[str, Any]] = {
    "ETag": {"description": "Version, for If-Match of an edit.", "schema": {"type": "string"}}
}
EDIT_PROBLEMS: Final = (
    "contradiction", "invalid-request", "not-ready", "precondition-failed", "precondition-required", "too-large",
)  # fmt: skip
_LOCATION: Final[dict[str, Any]] = {"Location": {"description": "Address of the card.", "schema": {"type": "string"}}}

Search = Annotated[str, Query(max_length=200, description="Words that must all occur.", examples=["rtx 30"])]


@router.get(
    "/gpus",
    summary="List cards",
    response_description="Cards by slug.",
    responses=responses("invalid-request", "not-ready"),
)
def get_gpus(planner: PlannerState, search: Search = "") -> list[GpuSummary]:
    """List the cards, by slug."""
    catalogue = planner.catalogues.gpus
    return [GpuSummary.model_validate(gpu_summary(record)) for record in search_gpus(catalogue, search)]


@router.get(
    "/gpus/{slug}",
    summary="One card",
    response_description="All that is known of it.",
    response_model=GpuDocument,
    responses=responses("not-ready", "unknown-gpu") | {200: {"headers": ETAG}},
)
def get_gpu(slug: str, planner: PlannerState) -> Response:
    """Show one card, by slug or by any name it is known by, with the source of every value."""
    return _shown(planner.catalogues.gpus.names.resolve(slug).record)


@router.post(
    "/gpus",
    summary="Add a card",
    response_description="The card, which is in the catalogue now.",
    status_code=201,
    response_model=GpuDocument,
    responses=responses("contradiction", "invalid-request", "not-ready", "too-large", "unsupported-media")
    | {
        200: {"model": GpuDocument, "headers": ETAG, "description": "The card, which was there already."},
        201: {"headers": _LOCATION | ETAG},
    },
    dependencies=[Depends(require_json)],
)
def post_gpus(card: CardFacts, planner: PlannerState, database: DatabaseState) -> Response:
    """Add a card, under a slug and names that mean no other; the same again changes nothing."""
    kept = add_card(planner.catalogues, database, card)
    answer = _shown(kept.record, 201 if kept.is_new else 200)
    answer.headers["Location"] = f"/gpus/{kept.record.slug}"
    return answer


@router.put(
    "/gpus/{slug}",
    summary="Change a card",
    response_description="The card as it is now.",
    response_model=GpuDocument,
    responses=responses(*EDIT_PROBLEMS, "unknown-gpu", "unsupported-media") | {200: {"headers": ETAG}},
    dependencies=[Depends(require_json)],
)
def put_gpu(
    slug: str, card: CardFacts, planner: PlannerState, database: DatabaseState, if_match: IfMatch = None
) -> Response:
    """Replace what is known of a card. A card that ships with the service becomes yours: no release changes it then."""
    return _shown(change_card(planner.catalogues, database, slug, card, if_match=if_match))


@router.delete(
    "/gpus/{slug}",
    summary="Remove a card",
    response_description="It is removed, or as it ships again.",
    status_code=204,
    responses=responses(*(slug for slug in EDIT_PROBLEMS if slug != "too-large"), "unknown-gpu"),
)
def delete_gpu(slug: str, planner: PlannerState, database: DatabaseState, if_match: IfMatch = None) -> None:
    """Remove a card that was added; of one that was changed, the version that ships with the service comes back."""
    remove_card(planner.catalogues, database, slug, if_match=if_match)


def _shown(record: GpuRecord, status: int = 200) -> Response:
    document = GpuDocument.model_validate(gpu_document(record))
    return Response(document.model_dump_json(), status_code=status, media_type=JSON, headers={"ETag": card_tag(record)})
