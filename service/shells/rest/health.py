"""Whether the process lives, and whether it can answer."""

from fastapi import APIRouter
from pydantic import BaseModel, Field

from service.planning.readiness import why_not_ready
from service.shells.rest.problems import Refusal, responses
from service.shells.rest.state import DatabaseState, PlannerState

router = APIRouter(tags=["health"])


class Health(BaseModel):
    """Says that all is well."""

    status: str = Field("ok", examples=["ok"])


@router.get("/healthz", summary="Alive", response_description="The process lives.")
async def get_health() -> Health:
    """Answer while the process lives."""
    return Health()


@router.get(
    "/readyz", summary="Ready", response_description="Questions can be answered.", responses=responses("not-ready")
)
def get_readiness(planner: PlannerState, database: DatabaseState) -> Health:
    """Answer while database and catalogues can be used."""
    reason = why_not_ready(planner, database)
    if reason is not None:
        raise Refusal("not-ready", reason)
    return Health()
