"""POST /recommend: which rigs of catalogue cards serve a model to so many people, at a speed, within limits."""

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from service.contract.engine import EngineRequest, LlamaCppEngine
from service.contract.estimate import Estimate
from service.contract.model_reference import ModelReference
from service.contract.plan import Verdict
from service.contract.quantities import ANSWER, REQUEST, Flag, Rate, Text, Whole
from service.contract.request import PlanRequest, WorkloadRequest
from service.contract.rig import BackendName, HostRequest

MAX_CARDS = 8
MAX_RESULTS = 100
Segment: TypeAlias = Literal["consumer", "datacenter", "laptop", "soc", "workstation"]
Vendor: TypeAlias = Literal["AMD", "Apple", "Intel", "NVIDIA"]
SortKey: TypeAlias = Literal[
    "price", "power_w", "cards", "decode_tokens_per_s", "decode_tokens_per_s_per_w", "decode_tokens_per_s_per_price"
]
CardCount: TypeAlias = Annotated[Whole, Field(ge=1, le=MAX_CARDS)]
Price: TypeAlias = Annotated[float, Field(strict=True, ge=0, le=1e12)]
EXAMPLE_RECOMMENDATION: dict[str, JsonValue] = {
    "model": "llama-3.3-70b:Q4_K_M",
    "workload": {"context_tokens": 16384},
    "min_decode_tokens_per_s": 15,
    "gpus": ["rtx-3090", "rtx-4090", "rtx-5090"],
    "prices": {"rtx-3090": 750, "rtx-4090": 1900, "rtx-5090": 2600},
    "sort_by": "price",
}


class RecommendRequest(BaseModel):
    """What is to run, how fast, and what the rig may be; what is left out does not matter."""

    model_config = ConfigDict(**REQUEST, json_schema_extra={"examples": [EXAMPLE_RECOMMENDATION]})

    model: ModelReference | None = Field(None, description="The model; or several as `models`.")
    models: Annotated[list[ModelReference], Field(min_length=1, max_length=16)] | None = Field(
        None, description="Models that the rig has to run, one at a time."
    )
    workload: WorkloadRequest = Field(
        default_factory=WorkloadRequest,
        description="As in a plan: `parallel` people at once share `context_tokens`; null: what their prompts and "
        "answers take.",
    )
    engine: EngineRequest = Field(default_factory=LlamaCppEngine)
    host: HostRequest = Field(default_factory=HostRequest, description="The computer around the cards.")
    min_decode_tokens_per_s: Rate | None = Field(None, description="Tokens per second for each stream.", examples=[20])
    min_prefill_tokens_per_s: Rate | None = Field(None, description="Prompt tokens per second.")
    max_ttft_s: Rate | None = Field(None, description="Seconds to the first token.")
    allow_host_offload: Flag = Field(False, description="Whether a part of the model may lie in main memory.")
    min_cards: CardCount = Field(1, description="Fewest cards.")
    max_cards: CardCount = Field(MAX_CARDS, description="Most cards.")
    max_kinds: Annotated[Whole, Field(ge=1, le=2)] = Field(
        2,
        description="Kinds of card in one rig: 1, or 2 where mixed rigs of cards that one backend drives are "
        "looked at as well.",
    )
    max_power_w: Rate | None = Field(None, description="Most that the cards may draw together, by their board power.")
    max_slots: Annotated[Whole, Field(ge=1, le=64)] | None = Field(None, description="Slots that the cards may take.")
    max_price: Price | None = Field(None, description="Most that the cards may cost, in the unit of `prices`.")
    prices: Annotated[dict[Text, Price], Field(max_length=1000)] | None = Field(
        None, description="What one card costs you, by its name; without it nothing is known of prices."
    )
    gpus: Annotated[list[Text], Field(min_length=1, max_length=1000)] | None = Field(
        None, description="Cards to choose from, by name; null: all of the catalogue."
    )
    vendors: Annotated[list[Vendor], Field(min_length=1)] | None = Field(None, description="Only of these vendors.")
    segments: Annotated[list[Segment], Field(min_length=1)] | None = Field(None, description="Only of these segments.")
    backends: Annotated[list[BackendName], Field(min_length=1)] | None = Field(
        None, description="Only cards that one of these drives by default.", examples=[["cuda"]]
    )
    sort_by: SortKey | None = Field(
        None, description="Least first for price, power and cards, most first for speeds; null: price where there are "
        "prices, else power.",
    )  # fmt: skip
    limit: Annotated[Whole, Field(ge=1, le=MAX_RESULTS)] = Field(10, description="How many rigs to name.")


class RecommendedModel(BaseModel):
    """One of the models on a recommended rig."""

    model_config = ANSWER

    model: str
    plan_id: str
    verdict: Verdict
    max_context_tokens: int
    least_headroom_bytes: int | None = Field(description="What is free on the fullest card.")
    decode_tokens_per_s: Estimate | None = Field(description="Of each stream.")
    aggregate_decode_tokens_per_s: Estimate | None = Field(description="Of all streams together.")
    prefill_tokens_per_s: Estimate | None
    ttft_s: Estimate | None
    command: str
    warnings: list[str] = Field(description="Codes of the plan's warnings.")
    request: PlanRequest = Field(description="The question, as POST /plan takes it.")


class Recommendation(BaseModel):
    """A rig that does what was asked; where there are several models, figures are of the slowest."""

    model_config = ANSWER

    rig: str = Field(examples=["2x rtx-3090"])
    gpus: list[str] = Field(description="As a plan's rig.gpus takes them.", examples=[["2x rtx-3090"]])
    cards: int
    power_w: float | None = Field(
        description="Board power of all cards, or of a machine sold around one chip; null where it is not known."
    )
    slots: int | None = Field(description="Slots the cards take; null where one's are not known.")
    price: float | None = Field(description="Sum of the prices given; null where a card has none.")
    decode_tokens_per_s: float | None = Field(description="Of each stream.")
    aggregate_decode_tokens_per_s: float | None = Field(description="Of all streams together.")
    decode_tokens_per_s_per_w: float | None = Field(description="Of all streams together, per watt of board power.")
    decode_tokens_per_s_per_price: float | None = Field(description="Of all streams together, per unit of price.")
    prefill_tokens_per_s: float | None
    ttft_s: float | None
    system_peak_w: float | None = Field(description="What the whole machine draws at most.")
    recommended_psu_w: float | None
    models: list[RecommendedModel]
    why: str


class NearMiss(BaseModel):
    """A rig that was planned and does not do what was asked."""

    model_config = ANSWER

    rig: str
    missing: str = Field(description="What it lacks.")


class Considered(BaseModel):
    """How many rigs there were, and why not all of them were planned."""

    model_config = ANSWER

    kinds: int = Field(description="Kinds of card to choose from.")
    kinds_left_out: dict[str, int] = Field(description="Kinds of card left out, by reason.")
    rigs: int = Field(description="Rigs of these kinds and numbers.")
    too_small: int = Field(description="Their memory together is less than weights and cache take.")
    over_limit: int = Field(description="They draw, take or cost more than allowed.")
    too_slow: int = Field(description="Even perfectly shared, their bandwidth, or the speed of fewer, is not enough.")
    planned: int
    refused: int = Field(description="Planned, and the engine does not run there.")
    unfit: int = Field(description="Planned, and something does not fit.")
    short: int = Field(description="Planned, fit, and are slower than asked.")
    not_needed: int = Field(description="Rigs that only add cards to one that does, or rank behind those named.")
    not_reached: int = Field(description="Left when the number of plans for one question was used up.")


class Recommendations(BaseModel):
    """Rigs that do what was asked, best first."""

    model_config = ANSWER

    context_tokens: int = Field(description="Context that was planned.")
    sorted_by: SortKey
    recommendations: list[Recommendation]
    near_misses: list[NearMiss] = Field(description="Where nothing does: what came nearest.")
    considered: Considered
    explanation: list[str]
