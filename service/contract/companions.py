"""What runs beside the model, as requests state it and plans resolve it."""

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, Discriminator, Field, Tag

from service.contract.model_reference import ModelReference
from service.contract.quantities import ANSWER, REQUEST, Bytes, Flag, Text, Whole

OWN_DRAFT_LAYERS = "mtp"

CacheType: TypeAlias = Literal["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"]
Layers: TypeAlias = Annotated[Whole, Field(ge=-2, le=1_000_000)]
SpecType: TypeAlias = Literal["draft-simple", "draft-mtp", "draft-eagle3", "draft-dflash", "draft-dspark"]


class DraftRequest(BaseModel):
    """Speculation with a draft model, or with the model's own draft (MTP) layers."""

    model_config = REQUEST

    model: ModelReference | None = Field(
        None,
        description="The draft model (-md); null with spec_type draft-mtp: the model's own draft layers.",
        examples=["qwen3-0.6b:Q8_0"],
    )
    spec_type: SpecType | None = Field(
        None, description="Kind of speculation (--spec-type); null: the one the draft model is made for."
    )
    n_max: Annotated[Whole, Field(ge=0, le=1_000_000)] = Field(
        3, description="Tokens the draft proposes per step (--spec-draft-n-max)."
    )
    acceptance_fraction: Annotated[float, Field(strict=True, ge=0, le=1)] | None = Field(
        None,
        description="Probability that a proposed token is accepted where all before it were: the first number behind "
        "'acc per pos' in llama-server's log; null: 0.84, as measured of draft layers over code and prose.",
        examples=[0.8],
    )
    cache_type_k: CacheType | None = Field(None, description="Type of the draft's key cache (-ctkd); null: f16.")
    cache_type_v: CacheType | None = Field(None, description="Type of the draft's value cache (-ctvd); null: f16.")
    n_gpu_layers: Layers | Literal["all", "auto"] | None = Field(
        None, description='Layers of the draft model on the cards (-ngld); "auto" and null: all of them.'
    )
    n_cpu_moe: Annotated[Whole, Field(ge=0, le=1_000_000)] | None = Field(
        None, description="Blocks of the draft model whose routed experts stay on the host (-ncmoed)."
    )
    override_tensor: Annotated[list[Text], Field(max_length=4096)] = Field(
        default_factory=list, description="Tensors of the draft model by regular expression to a buffer type (-otd)."
    )


class MmprojRequest(BaseModel):
    """A projector for images or sound, by its file or by its bytes."""

    model_config = REQUEST

    model: ModelReference | None = Field(None, description="The projector's GGUF file (--mmproj).")
    weights_bytes: Annotated[Bytes, Field(ge=1)] | None = Field(
        None, description="Size of its weights, where there is no file to read it from.", examples=[857_000_000]
    )
    offload: Flag = Field(True, description="Keep it on a card (false: --no-mmproj-offload).")


def _kind(value: object) -> str:
    return "<name>" if isinstance(value, str) else "<object>"


DraftReference: TypeAlias = Annotated[
    Annotated[Text, Tag("<name>")] | Annotated[DraftRequest, Tag("<object>")], Discriminator(_kind)
]
MmprojReference: TypeAlias = Annotated[
    Annotated[Text, Tag("<name>")] | Annotated[MmprojRequest, Tag("<object>")], Discriminator(_kind)
]


class DraftPlan(BaseModel):
    """The draft as it was resolved."""

    model_config = ANSWER

    model: str | None = Field(description="Draft model; null: the model's own draft layers.")
    spec_type: SpecType
    n_max: int
    acceptance_fraction: float = Field(description="Stated, or what is assumed.")
    cache_type_k: str
    cache_type_v: str
    n_gpu_layers: int | None = Field(description="Layers of the draft model on the cards; null without one.")
    n_cpu_moe: int
    override_tensor: list[str]


class MmprojPlan(BaseModel):
    """The projector as it was resolved."""

    model_config = ANSWER

    model: str | None = Field(description="The projector's file; null where only its bytes are known.")
    weights_bytes: int
    offload: bool


class CompanionBytes(BaseModel):
    """What something beside the model takes of one card or of main memory; part of companion_bytes there."""

    model_config = ANSWER

    weights_bytes: int
    kv_bytes: int
    compute_bytes: int
    overhead_bytes: int = Field(description="What the backend keeps besides, once the engine runs.")
    total_bytes: int


class CompanionPlan(BaseModel):
    """Where something beside the model lies."""

    model_config = ANSWER

    kind: Literal["draft", "mmproj"]
    devices: list[CompanionBytes] = Field(description="By card, in the order of the plan's devices.")
    host: CompanionBytes
