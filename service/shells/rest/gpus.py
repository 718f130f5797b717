"""GET /gpus and GET /gpus/{slug}: the catalogue of cards."""

from typing import Annotated

from fastapi import APIRouter, Query

from service.catalog.gpu_documents import gpu_document, gpu_summary, search_gpus
from service.contract.catalogue import GpuDocument, GpuSummary
from service.shells.rest.problems import responses
from service.shells.rest.state import PlannerState

router = APIRouter(tags=["catalogue"])

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
    responses=responses("not-ready", "unknown-gpu"),
)
def get_gpu(slug: str, planner: PlannerState) -> GpuDocument:
    """Show one card, by slug or by any name it is known by, with the source of every value."""
    named = planner.catalogues.gpus.names.resolve(slug)
    return GpuDocument.model_validate(gpu_document(named.record))
