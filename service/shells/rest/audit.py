"""GET /audit: who changed what in the catalogues, when, and what it was before."""

from typing import Annotated

from fastapi import APIRouter, Query

from service.contract.audit import AuditQuery, AuditTrail
from service.planning.audit_trail import audit_trail
from service.shells.rest.problems import responses
from service.shells.rest.state import DatabaseState

router = APIRouter(tags=["catalogue"])


@router.get(
    "/audit",
    summary="Changes of the catalogues",
    response_description="A page of them, the newest first.",
    responses=responses("invalid-request", "not-ready"),
)
def get_audit(query: Annotated[AuditQuery, Query()], database: DatabaseState) -> AuditTrail:
    """List who changed cards, models, aliases, measurements and keys; `kind` and `entity` give one's history."""
    return audit_trail(database, query)
