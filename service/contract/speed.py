"""How fast a plan will run."""

from typing import Literal, TypeAlias

from pydantic import BaseModel, Field

from service.contract.estimate import Estimate
from service.contract.measurements import SpeedCorrection
from service.contract.quantities import ANSWER

Basis: TypeAlias = Literal["measured", "fitted", "modelled", "assumed"]
Limit: TypeAlias = Literal["memory_bandwidth", "compute", "interconnect", "host_memory"]


class BreakdownStep(BaseModel):
    """One part of the decode step."""

    model_config = ANSWER

    what: str
    s: float


class SpeculationPlan(BaseModel):
    """What the draft does to decode speed; times are of one step of all streams."""

    model_config = ANSWER

    acceptance_fraction: float = Field(
        description="Probability that a proposed token is accepted where all before it were: as stated or assumed."
    )
    acceptance_assumed: bool = Field(description="Whether nobody stated it.")
    n_max: int = Field(description="Tokens that the draft proposes per step; draft layers propose one each at most.")
    accepted_fraction: float = Field(
        description="Part of all proposed tokens that is accepted then: what llama-server prints as draft acceptance."
    )
    step_tokens: float = Field(description="Tokens that a step yields on average.")
    draft_s: float = Field(description="Time of a step's drafts, in seconds.")
    verify_s: float = Field(description="Time of the model's step over the drafts, in seconds.")
    plain_decode_tokens_per_s: float = Field(description="Tokens per second of each stream without the draft.")
    gain: float = Field(description="Times as fast as without the draft; below 1: slower.")
    break_even_acceptance_fraction: float | None = Field(
        description="Acceptance below which it is slower than without; null: at any."
    )
    best_n_max: int = Field(description="Tokens per step with which it would be fastest at this acceptance.")
    best_gain: float = Field(description="The gain with them.")


class SpillPlan(BaseModel):
    """How fast it would run where the driver moves what a card has no room for into main memory.

    NVIDIA's does under Windows and WSL unless told not to, AMD's under Linux, and llama.cpp asks for it with
    GGML_CUDA_ENABLE_UNIFIED_MEMORY.
    """

    model_config = ANSWER

    spilled_bytes: int = Field(description="What the cards have no room for.")
    slowdown: float = Field(description="Times as slow in decode as with room for everything.")
    decode_tokens_per_s: Estimate = Field(description="Tokens per second of each stream.")
    prefill_tokens_per_s: Estimate | None = Field(description="Prompt tokens per second; null where unknown.")


class SpeedPlan(BaseModel):
    """How fast it will run; where it does not fit, how fast it would with room for it."""

    model_config = ANSWER

    decode_tokens_per_s: Estimate = Field(description="Tokens per second of each stream.")
    prefill_tokens_per_s: Estimate | None = Field(description="Prompt tokens per second; null where unknown.")
    ttft_s: Estimate | None = Field(description="Time to the first token, in seconds.")
    aggregate_decode_tokens_per_s: Estimate = Field(description="Tokens per second of all streams together.")
    limited_by: Limit
    basis: Basis = Field(description="measured: this very configuration was measured here.")
    breakdown: list[BreakdownStep] = Field(
        description="Parts of the time of one token of every stream as they are modelled, and what measurements add or "
        "take away; with a draft, parts of its step over the tokens that the step yields."
    )
    speculation: SpeculationPlan | None = Field(
        None, description="What the draft does; null without one, or where a card's arithmetic is not known."
    )
    spill: SpillPlan | None = Field(
        None, description="With what lacks moved to main memory by the driver; null where cards lack nothing."
    )
    corrections: list[SpeedCorrection] = Field(
        default_factory=list, description="What measurements changed; empty where none says anything."
    )
