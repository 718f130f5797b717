"""Curves: how one plan's figures move with depth, users and context."""

from typing import Annotated

from pydantic import BaseModel, Field

from service.contract.estimate import Estimate
from service.contract.plan import Verdict
from service.contract.quantities import ANSWER


class DepthPoint(BaseModel):
    """Speed at one depth."""

    model_config = ANSWER

    depth_tokens: int = Field(description="Tokens in the cache before.")
    tokens_per_s: Estimate


class UsersPoint(BaseModel):
    """Speed and verdict with a number of streams, each with its own context."""

    model_config = ANSWER

    parallel: int = Field(description="Streams at once.")
    context_tokens: int = Field(description="Context of all of them together.")
    verdict: Verdict
    decode_tokens_per_s: Estimate | None = Field(description="Of each stream.")
    aggregate_decode_tokens_per_s: Estimate | None = Field(description="Of all together.")


class MemoryPoint(BaseModel):
    """Memory at one context, and what decode comes to."""

    model_config = ANSWER

    context_tokens: int
    verdict: Verdict
    device_total_bytes: list[int] = Field(description="Of each card, in the plan's order.")
    host_total_bytes: int
    shortfall_bytes: int
    decode_tokens_per_s: Estimate | None = Field(
        description="Of each stream with the plan's workload; beyond the cliff with what lacks in main memory, where "
        "drivers move it that do not refuse. Null where no speed is known, or where it would be refused."
    )
    offloaded_decode_tokens_per_s: Estimate | None = Field(
        None, description="Beyond the cliff, with as much on the host as the planner would put there; null before it."
    )


class Curves(BaseModel):
    """Figures for charts, with the plan's choices kept; each curve has few points, spaced by factors."""

    model_config = ANSWER

    plan_id: str = Field(description="The plan that the curves go through, as it is answered today.")
    model: str | None
    context_tokens: int = Field(description="Context of the plan.")
    decode: list[DepthPoint] = Field(description="Decode over depth, one stream's rate.")
    prefill: list[DepthPoint] = Field(description="Prefill of the workload's prompt over depth.")
    users: list[UsersPoint] = Field(description="Streams, each with the plan's context per stream.")
    memory: list[MemoryPoint] = Field(
        description="Memory and decode over context, with the last that fits and one beyond: the cliff."
    )
    device_usable_bytes: list[int] = Field(description="What each card has.")
    fits_up_to_tokens: Annotated[int, Field(ge=0)] = Field(
        description="Context at the cliff: the largest that fits with these choices; 0 where none does."
    )
