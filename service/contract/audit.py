"""Who changed what in the catalogues."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from service.contract.quantities import ANSWER, REQUEST, Text


class AuditQuery(BaseModel):
    """Which changes to list."""

    model_config = REQUEST

    kind: Literal["card", "model", "alias", "measurement", "key"] | None = Field(None, description="Only of these.")
    entity: Text | None = Field(None, description="Only of this one.", examples=["rtx-3090"])
    actor: Text | None = Field(None, description="Only by this key.", examples=["ci"])
    limit: Annotated[int, Field(ge=1, le=1000)] = Field(100, description="At most so many.")
    before_id: Annotated[int, Field(ge=1, le=2**63 - 1)] | None = Field(None, description="Only older than this.")


class AuditDocument(BaseModel):
    """One change."""

    model_config = ANSWER

    id: int = Field(description="Counts up.")
    at: datetime
    actor: str = Field(
        description="Name of the key; `anonymous` for this machine without one, `command line`, or `release` for "
        "data that ships with the service.",
        examples=["ci"],
    )
    action: Literal["create", "update", "delete", "seed"]
    kind: Literal["card", "model", "alias", "measurement", "key"]
    entity: str = Field(description="Slug, id or name.", examples=["rtx-3090"])
    before: dict[str, Any] | None = Field(description="What it was; null where it was not there.")
    after: dict[str, Any] | None = Field(description="What it is since; null where it is gone.")


class AuditTrail(BaseModel):
    """A page of changes, the newest first."""

    model_config = ANSWER

    changes: list[AuditDocument]
    next_before_id: int | None = Field(description="`before_id` of the next page; null on the last.")
