"""The hardware side of an answer: what the rig draws, and what its links carry."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from service.contract.estimate import Estimate
from service.contract.quantities import ANSWER


class Power(BaseModel):
    """Power that the rig draws, in watts, and what supplies it."""

    model_config = ANSWER

    gpus_peak_w: float = Field(description="All cards at their limits: prefill, tensor split, many streams.")
    gpus_decode_w: float = Field(description="Mean draw of all cards while tokens are generated.")
    gpus_idle_w: float = Field(description="All cards without work, with a model in memory.")
    system_peak_w: float = Field(description="Cards, processor, board, memory and fans at their most.")
    system_decode_w: float = Field(description="The same while tokens are generated.")
    transient_peak_w: float = Field(
        description="For some milliseconds, when the largest card, or with tensor split all of them, make a step."
    )
    recommended_psu_w: float = Field(
        description="Rating of the supply that bears it, of each one where there are several; for a machine sold "
        "around one chip, what its own one gives."
    )
    psu_load_fraction: float | None = Field(
        description="Share of its rating that the supply, or the fullest one, bears at peak; null without a rating."
    )
    wall_peak_w: float = Field(description="What the wall gives at peak, with the supply's losses.")
    wall_decode_w: float
    wall_idle_w: float = Field(description="What the wall gives while nobody asks anything.")
    energy_wh_per_1000_tokens: Estimate | None = Field(
        description="Energy at the wall for 1,000 generated tokens of all streams together; null without a speed."
    )
    cost_per_1000_tokens: Estimate | None = Field(
        description="What that costs in the currency of `rig.circuit.tariff_per_kwh`; null without one."
    )
    idle_cost_per_year: float | None = Field(description="What a year without work costs; null without a tariff.")
    assumptions: list[str] = Field(description="What was assumed where the request does not say.")


class LinkPath(BaseModel):
    """How pairs of cards reach each other."""

    model_config = ANSWER

    kind: Literal["nvlink", "pcie-p2p", "host-staged", "network"] = Field(
        description="NVLink; PCI Express between the cards; through host memory; or another machine's network."
    )
    pairs: list[Annotated[list[int], Field(min_length=2, max_length=2)]] = Field(examples=[[[0, 1]]])
    bandwidth_bytes_per_s: float | None = Field(description="What is reached in one direction; null over a network.")
    latency_s: float | None = Field(description="Time of a small transfer.")


class AllReduce(BaseModel):
    """Adding up what every card computed of a layer, as tensor split does."""

    model_config = ANSWER

    implementation: Literal["nccl", "custom", "internal", "butterfly"]
    payload_bytes: int = Field(description="Bytes that each card sends for one token.")
    meetings_per_token: int
    s: Estimate = Field(description="Time of one on these links alone; the engine's own launches come on top.")
    token_s: float = Field(description="All of a token's, at the middle of the range.")


class Links(BaseModel):
    """What joins the cards, and what crosses it."""

    model_config = ANSWER

    paths: list[LinkPath] = Field(
        description="Every pair of cards once, equal paths together; of more than 16 cards some of each sort."
    )
    boundary_bytes_per_token: int = Field(description="Hidden state that goes from one stage to the next.")
    boundary_s_per_token: float | None = Field(
        description="Time of that over the slowest path between cards that work; null with fewer than two."
    )
    ubatch_boundary_s: float | None = Field(description="The same for a whole ubatch of a prompt.")
    all_reduce: AllReduce | None = Field(description="With split mode row or tensor over several cards.")
    load_s: Estimate = Field(
        description="Time to copy the weights to the cards from main memory; a disk may be slower."
    )
    checks: list[str] = Field(description="Commands that show whether the rig is as stated.")
    assumptions: list[str] = Field(description="What was assumed where the request does not say.")
