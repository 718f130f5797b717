"""POST /compare: one question for several models, quants, rigs, contexts and engines, and the table of answers."""

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Discriminator, Field, JsonValue, Tag

from service.contract.engine import EngineRequest, LlamaCppEngine
from service.contract.model_reference import ModelReference
from service.contract.plan import Plan
from service.contract.problem import Problem
from service.contract.quantities import ANSWER, REQUEST, Text, Tokens
from service.contract.request import AssumptionsRequest, PlanRequest, WorkloadRequest
from service.contract.rig import RigGpu, RigRequest

MAX_AXIS = 64
EXAMPLE_COMPARISON: dict[str, JsonValue] = {
    "base": {"model": "qwen3-32b", "workload": {"context_tokens": 16384}},
    "quants": ["Q4_K_M", "Q6_K"],
    "rigs": ["2x rtx-3090", "rtx-5090"],
}
Cell: TypeAlias = str | int | float | bool | None
Measure: TypeAlias = Literal[
    "decode_tokens_per_s", "aggregate_decode_tokens_per_s", "prefill_tokens_per_s", "ttft_s", "max_context_tokens",
    "least_headroom_bytes",
]  # fmt: skip


def _rig_kind(value: object) -> str:
    if isinstance(value, str):
        return "<names>"
    return "<cards>" if isinstance(value, list | tuple) else "<object>"


RigChoice: TypeAlias = Annotated[
    Annotated[Text, Tag("<names>")]
    | Annotated[list[RigGpu], Field(max_length=1000), Tag("<cards>")]
    | Annotated[RigRequest, Tag("<object>")],
    Discriminator(_rig_kind),
]


class CompareBase(BaseModel):
    """A PlanRequest whose parts hold where the comparison does not vary them."""

    model_config = REQUEST

    model: ModelReference | None = Field(None, description="As in a plan; not needed where `models` are given.")
    rig: RigRequest = Field(default_factory=RigRequest)
    workload: WorkloadRequest = Field(default_factory=WorkloadRequest)
    engine: EngineRequest = Field(default_factory=LlamaCppEngine)
    assumptions: AssumptionsRequest | None = Field(None)


class CompareRequest(BaseModel):
    """One question with every combination of what varies; what is left out does not vary."""

    model_config = ConfigDict(**REQUEST, json_schema_extra={"examples": [EXAMPLE_COMPARISON]})

    base: CompareBase = Field(default_factory=CompareBase, description="What all rows have in common.")
    models: Annotated[list[ModelReference], Field(min_length=1, max_length=MAX_AXIS)] | None = Field(
        None, description="Models in place of base.model."
    )
    quants: Annotated[list[Text], Field(min_length=1, max_length=MAX_AXIS)] | None = Field(
        None, description="Quants in place of the model names' own.", examples=[["Q4_K_M", "Q8_0"]]
    )
    rigs: Annotated[list[RigChoice], Field(min_length=1, max_length=MAX_AXIS)] | None = Field(
        None,
        description="Rigs in place of base.rig, each as card names separated by commas or as a list of cards, which "
        "leave the rest of base.rig as it is, or as a whole rig.",
        examples=[
            ["2x rtx-3090", ["rtx-5090", "rtx-3090"], {"gpus": ["rtx-5090"], "host": {"ram_bytes": 68719476736}}]
        ],
    )
    contexts: Annotated[list[Tokens | None], Field(min_length=1, max_length=MAX_AXIS)] | None = Field(
        None, description="Contexts in tokens in place of base.workload's; null: the largest that fits."
    )
    engines: Annotated[list[EngineRequest], Field(min_length=1, max_length=MAX_AXIS)] | None = Field(
        None, description="Engines, or other settings of the same one, in place of base.engine."
    )
    plans: Annotated[bool, Field(strict=True)] = Field(False, description="Whether each row has its whole plan.")


class CompareRow(BaseModel):
    """One combination: its question, and its figures or why it has none."""

    model_config = ANSWER

    model: str = Field(examples=["qwen3-32b:Q4_K_M"])
    rig: str = Field(examples=["2x rtx-3090"])
    context_tokens: int | None = Field(description="Context asked for; null: the largest that fits.")
    engine: str = Field(description="Engine with the settings stated for it.", examples=["llama.cpp split_mode=tensor"])
    request: PlanRequest = Field(description="The question of this row, as POST /plan takes it.")
    figures: dict[str, Cell] | None = Field(description="The columns of `GET /plan?format=csv`; null with a problem.")
    difference: str | None = Field(description="What differs from the first row that has figures, and by how much.")
    plan: Plan | None = Field(None, description="The whole plan, where plans were asked for.")
    problem: Problem | None = Field(None, description="Why this row has no figures.")


class CompareBest(BaseModel):
    """The best row by one measure, of those that run."""

    model_config = ANSWER

    measure: Measure
    row: int = Field(description="Index in rows.")
    value: float
    why: str


class Comparison(BaseModel):
    """Every combination in the order models, quants, rigs, contexts, engines, the last varying fastest."""

    model_config = ANSWER

    varied: list[Literal["models", "quants", "rigs", "contexts", "engines"]] = Field(description="What was varied.")
    rows: list[CompareRow]
    best: list[CompareBest]
