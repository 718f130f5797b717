"""PlanRequest: the question."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from service.contract.engine import EngineRequest, LlamaCppEngine
from service.contract.model_reference import ModelReference
from service.contract.quantities import REQUEST, Flag, Tokens, TokensFromZero, Whole
from service.contract.rig import RigRequest

EXAMPLE_REQUEST: dict[str, JsonValue] = {
    "model": "llama-3.3-70b:Q4_K_M",
    "rig": {"gpus": ["2x rtx-3090"]},
    "workload": {"context_tokens": 16384},
}


class WorkloadRequest(BaseModel):
    """What will be asked of the model."""

    model_config = REQUEST

    context_tokens: Tokens | None = Field(
        None, description="Context size (-c), all streams together; null: the largest that fits.", examples=[16384]
    )
    parallel: Annotated[Whole, Field(ge=1, le=256)] = Field(1, description="Streams at once (-np).")
    prompt_tokens: Tokens = Field(1024, description="Tokens of the prompt to process.")
    cached_tokens: TokensFromZero = Field(0, description="Tokens already in the cache before the prompt.")
    output_tokens: Tokens = Field(256, description="Tokens to generate; decode speed is the mean over them.")


class AssumptionsRequest(BaseModel):
    """What-if constants in place of the planner's own; echoed in the plan."""

    model_config = REQUEST

    bandwidth_fraction: Annotated[float, Field(strict=True, ge=1e-6, le=2)] | None = Field(
        None, description="Share of the advertised memory bandwidth that decode reaches.", examples=[0.79]
    )
    fixed_s_per_device: Annotated[float, Field(strict=True, ge=0, le=10)] | None = Field(
        None, description="Time per token and device that does not depend on bytes, in seconds.", examples=[0.00074]
    )
    ignore_kv_reads: Flag | None = Field(None, description="Leave reads of the KV cache out of the decode time.")


class PlanRequest(BaseModel):
    """Will this model fit on this rig, and how fast will it run?"""

    model_config = ConfigDict(**REQUEST, json_schema_extra={"examples": [EXAMPLE_REQUEST]})

    model: ModelReference = Field(
        description="Catalogue `name:quant` (a bare name means Q4_K_M, MXFP4 for gpt-oss), a manifest id `sha256:…`, "
        "or an address.",
        examples=["llama-3.3-70b:Q4_K_M"],
    )
    rig: RigRequest = Field(default_factory=RigRequest, description="The machine; without cards: the host alone.")
    workload: WorkloadRequest = Field(default_factory=WorkloadRequest)
    engine: EngineRequest = Field(default_factory=LlamaCppEngine)
    assumptions: AssumptionsRequest | None = Field(None, description="What-if overrides of the speed constants.")
