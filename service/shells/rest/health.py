"""Whether the process lives, and whether it can answer."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from service.planning.readiness import READY, Part, readiness, readiness_to_plan
from service.shells.rest.problems import Refusal, responses
from service.shells.rest.state import DatabaseState, DrainingState, PlannerState

router = APIRouter(tags=["health"])


class Health(BaseModel):
    """Says that all is well."""

    status: str = Field("ok", examples=["ok"])


class Readiness(Health):
    """Says that all is well, part by part."""

    checks: dict[Part, str] = Field(
        description="State of each part; one that is not waited for may say what it lacks.",
        examples=[{"database": "ok", "migrations": "ok", "catalogue": "ok"}],
    )


class ReadinessQuery(BaseModel):
    """What readiness is asked for."""

    model_config = ConfigDict(extra="forbid")

    exclude: list[Part] = Field(
        default_factory=list,
        description="Parts that may be missing; plans are answered without `database`, which implies `migrations`.",
        examples=[["database"]],
    )


@router.get("/healthz", summary="Alive", response_description="The process lives.")
async def get_health() -> Health:
    """Answer while the process lives."""
    return Health()


@router.get(
    "/readyz",
    summary="Ready",
    response_description="Questions can be answered.",
    responses=responses("not-ready"),
)
def get_readiness(
    query: Annotated[ReadinessQuery, Query()], planner: PlannerState, database: DatabaseState, draining: DrainingState
) -> Readiness:
    """Answer while database, tables and catalogues can be used and the process is not about to end.

    A balancer that shall keep sending questions while the database is away asks for `/readyz?exclude=database`, which
    does not wait for it.
    """
    if draining.has_begun:
        raise Refusal("not-ready", "process: It is about to end and takes no more requests in a moment.")
    states = readiness_to_plan(planner) if "database" in query.exclude else readiness(planner, database)
    missing = [f"{part}: {state}" for part, state in states.items() if state != READY and part not in query.exclude]
    if missing:
        raise Refusal("not-ready", " ".join(missing))
    return Readiness(checks=states)
