"""Measurements: what was imported, what became of it, and what predictions learn from it."""

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, Field

from service.contract.quantities import ANSWER, REQUEST, Text
from service.contract.rig import BackendName

MeasurementStatus: TypeAlias = Literal["accepted", "quarantined"]
MetricName: TypeAlias = Literal[
    "decode_tokens_per_s", "prefill_tokens_per_s", "aggregate_decode_tokens_per_s", "ttft_s", "combined_tokens_per_s"
]


class MeasurementHints(BaseModel):
    """What the benchmark's output does not say; what it does say must not contradict it."""

    model_config = REQUEST

    model: Text | None = Field(None, description="The model, as a PlanRequest names it.", examples=["qwen3-32b:Q4_K_M"])
    gpu: Annotated[list[Text], Field(max_length=64)] = Field(
        default_factory=list,
        description="The cards in the order the program saw them; repeat it, or write `2x rtx-3090`.",
        examples=[["2x rtx-3090"]],
    )
    backend: BackendName | None = Field(
        None, description="What drove the cards, where the program was built for several.", examples=["vulkan"]
    )
    source: Text | None = Field(None, description="Where it comes from, kept beside it.", examples=["lab machine 3"])


class MeasurementQuery(BaseModel):
    """Which measurements to list."""

    model_config = REQUEST

    status: MeasurementStatus | None = Field(None, description="Only these.")
    metric: MetricName | None = Field(None, description="Only figures of this kind.")
    engine: Text | None = Field(None, description="Only of this engine.", examples=["llama.cpp"])
    backend: Text | None = Field(None, description="Only of this backend.", examples=["cuda"])
    gpu: Text | None = Field(None, description="Part of a card's slug.", examples=["rtx-3090"])
    model: Text | None = Field(None, description="Part of a model's name.", examples=["qwen3"])
    limit: Annotated[int, Field(ge=1, le=1000)] = Field(100, description="At most so many.")
    offset: Annotated[int, Field(ge=0, le=10_000_000)] = Field(0, description="Leave out so many of the newest.")


class Withdrawal(BaseModel):
    """Why a measurement is withdrawn."""

    model_config = REQUEST

    reason: Text = Field(description="Kept beside it.", examples=["The card was throttling."])


class MeasurementDocument(BaseModel):
    """One figure of one benchmark."""

    model_config = ANSWER

    id: str = Field(description="Digest of what was read.", examples=["mea_0123456789abcdef"])
    status: MeasurementStatus = Field(description="Only accepted ones change predictions.")
    code: str = Field(description="Why it is quarantined, or why it changes nothing; empty otherwise.")
    reason: str = Field(description="The same in a sentence.")
    metric: MetricName = Field(description="What was measured; `combined` times a prompt and its answer together.")
    value: float | None = Field(description="The figure, in the unit at the metric's end; null where none was printed.")
    stddev: float | None = Field(description="Standard deviation over the repetitions.")
    engine: str = Field(examples=["llama.cpp"])
    backend: str = Field(description="What drove the cards.", examples=["cuda"])
    model: str | None = Field(description="The model it is of, null where none was found.")
    rig: str = Field(description="The cards, or what the program called them.", examples=["2x rtx-3090"])
    build: str = Field(description="Build or date.", examples=["b8829"])
    request: dict[str, Any] | None = Field(description="The PlanRequest whose speed it measures.")
    notes: list[str] = Field(description="What was read into it.")
    candidates: list[str] = Field(description="Models or cards that it could be of.")
    source: str | None
    added_at: datetime


class MeasurementList(BaseModel):
    """A page of measurements, the newest first."""

    model_config = ANSWER

    count: int = Field(description="How many there are in all.")
    measurements: list[MeasurementDocument]


class UnreadLine(BaseModel):
    """A line that was not understood."""

    model_config = ANSWER

    line: Annotated[int, Field(ge=1)]
    text: str
    reason: str


class ImportedMeasurements(BaseModel):
    """What an import found."""

    model_config = ANSWER

    formats: list[str] = Field(description="Formats that were recognised.", examples=[["llama-bench json"]])
    accepted: int = Field(description="Figures that are accepted, those that were there already included.")
    quarantined: int
    known: int = Field(description="Figures that were there already.")
    measurements: list[MeasurementDocument] = Field(description="Every figure, in the order of the text.")
    unread: list[UnreadLine] = Field(description="Lines that were not understood, the first 200 of them.")
    unread_count: int = Field(description="How many lines were not understood in all.")


class CalibrationShift(BaseModel):
    """What measurements say of one place."""

    model_config = ANSWER

    level: str = Field(
        description="How far it reaches: backend, quant, model, card, card-quant, card-model, configuration, build.",
        examples=["card"],
    )
    what: str = Field(description="Which one.", examples=["rtx-3090"])
    factor: float = Field(description="What predictions that belong here are multiplied by, beside other levels.")
    count: int = Field(description="Measurements that belong here.")
    measurements: list[str] = Field(description="Their ids.")


class CalibrationGroup(BaseModel):
    """Measurements that can say something about each other."""

    model_config = ANSWER

    group: str = Field(
        description="Engine, backend, way of sharing the work, and quantity.", examples=["llama.cpp cuda cards decode"]
    )
    count: int
    shifts: list[CalibrationShift]


class UnusedMeasurement(BaseModel):
    """An accepted measurement that nothing is learned from, and why."""

    model_config = ANSWER

    id: str
    reason: str


class Calibration(BaseModel):
    """What measurements move, and by how much."""

    model_config = ANSWER

    version: str = Field(description="Digest of the measurements that count.")
    count: int = Field(description="Measurements that count.")
    groups: list[CalibrationGroup]
    unused: list[UnusedMeasurement]


class SpeedCorrection(BaseModel):
    """How measurements change one figure of a plan."""

    model_config = ANSWER

    metric: str = Field(description="The figure.", examples=["decode_tokens_per_s"])
    modelled: float = Field(description="The figure before.")
    factor: float
    shifts: list[CalibrationShift] = Field(description="What each level contributes; they multiply to `factor`.")
