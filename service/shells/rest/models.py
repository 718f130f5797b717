"""GET /models and GET /models/{ref}: the catalogue of models."""

from fastapi import APIRouter

from service.contract.catalogue import ModelDocument, ModelListing, QuantSummary
from service.shells.rest.gpus import Search
from service.shells.rest.problems import responses
from service.shells.rest.state import PlannerState

router = APIRouter(tags=["catalogue"])


@router.get(
    "/models",
    summary="List models",
    response_description="Models by name.",
    responses=responses("invalid-request", "not-ready"),
)
def get_models(planner: PlannerState, search: Search = "") -> list[ModelListing]:
    """List the models, by name, with their quantisations."""
    return [
        ModelListing(
            name=summary.name,
            architecture=summary.architecture,
            parameters=summary.parameters,
            active_parameters=summary.active_parameters,
            trained_context_tokens=summary.trained_context_tokens,
            quants=[
                QuantSummary(
                    reference=row.reference, quant=row.quant, id=row.id, tensor_data_bytes=row.tensor_data_bytes
                )
                for row in summary.rows
            ],
        )
        for summary in planner.catalogues.models.search(search)
    ]


@router.get(
    "/models/{reference}",
    summary="One model",
    response_description="Its sizes.",
    responses=responses("not-ready", "unknown-model"),
)
def get_model(reference: str, planner: PlannerState) -> ModelDocument:
    """Show one model at one quantisation, by `name:quant`, by a bare name or by its id."""
    resolved = planner.catalogues.models.resolve(reference)
    row = resolved.row
    return ModelDocument(
        reference=row.reference,
        name=row.name,
        quant=row.quant,
        id=row.id,
        architecture=row.architecture,
        tensor_count=row.tensor_count,
        tensor_data_bytes=row.tensor_data_bytes,
        parameters=row.parameters,
        active_parameters=row.active_parameters,
        trained_context_tokens=row.trained_context_tokens,
        notes=list(resolved.notes),
    )
