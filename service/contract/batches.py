"""A batch job as it is told of: how far it is, and where its answers are."""

from datetime import datetime
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from service.contract.problem import Problem

Status: TypeAlias = Literal["queued", "running", "finished", "failed", "cancelled"]


class Batch(BaseModel):
    """A table or list of questions that is answered by workers."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(examples=["bat_5f2c1e9a7d3b4c6f8a0b1c2d3e4f5a6b"])
    status: Status = Field(
        description="`queued` until the upload is read; `failed` with a problem where it cannot be read."
    )
    media_type: str = Field(
        description="Of the result: that of what was sent, unless another was asked for.", examples=["text/csv"]
    )
    rows: int | None = Field(description="Rows or requests; null until the upload is read.")
    rows_done: int = Field(description="Rows whose answers are kept.")
    rows_refused: int = Field(description="Those of them that have a problem.")
    workers: int = Field(description="Workers that answer this batch now; with 0 it waits for `rigfit worker`.")
    rules_version: str = Field(description="Rules and constants of every answer of this batch.")
    restarts: int = Field(
        description="How often it began anew: workers of another release take it over, whole, once its own are gone."
    )
    created_at: datetime
    ended_at: datetime | None = Field(description="When it was finished, failed or cancelled.")
    problem: Problem | None = Field(description="Why it failed.")
    result: str | None = Field(
        description="Address of the answers once it is finished.", examples=["/batches/bat_5f2c/result"]
    )
