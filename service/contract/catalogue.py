"""Cards and models as the catalogue shows them."""

from typing import TypeAlias

from pydantic import BaseModel, Field

from service.contract.quantities import ANSWER

Scalar: TypeAlias = str | int | float | bool | None


class GpuSummary(BaseModel):
    """One card of the list."""

    model_config = ANSWER

    slug: str = Field(examples=["rtx-3090"])
    name: str = Field(examples=["GeForce RTX 3090"])
    vendor: str = Field(examples=["NVIDIA"])
    segment: str = Field(examples=["consumer"])
    vram_bytes: int | None = Field(description="Nominal memory size.", examples=[25769803776])
    memory_bandwidth_bytes_per_s: float | None = Field(examples=[936.2e9])
    tdp_w: float | None = Field(examples=[350])
    unverified: list[str] = Field(description="Values that were not re-read at their source.")


class SourcedValue(BaseModel):
    """One value with where it comes from."""

    model_config = ANSWER

    value: Scalar | list[Scalar]
    verified: bool = Field(description="Whether it was re-read at its source.")
    source: str


class UsableMemory(BaseModel):
    """What a program can get on this card when it is idle."""

    model_config = ANSWER

    backend: str
    total_bytes: int | None
    usable_bytes: int | None
    basis: str


class GpuDocument(BaseModel):
    """Everything known of one card."""

    model_config = ANSWER

    slug: str = Field(examples=["rtx-3090"])
    name: str
    aliases: list[str]
    vendor: str
    source_url: str
    as_of: str = Field(description="Date of the values.", examples=["2026-11-29"])
    notes: str | None
    values: dict[str, SourcedValue] = Field(description="Every value by its name, which ends in its unit.")
    backends: list[str] = Field(description="Backends that can drive it, the usual one first.")
    usable_memory: UsableMemory


class QuantSummary(BaseModel):
    """One quantisation of a model."""

    model_config = ANSWER

    reference: str = Field(description="What a PlanRequest names it by.", examples=["llama-3.3-70b:Q4_K_M"])
    quant: str = Field(examples=["Q4_K_M"])
    id: str
    tensor_data_bytes: int = Field(examples=[42512531712])


class ModelListing(BaseModel):
    """One model of the list, with its quantisations from the smallest to the largest."""

    model_config = ANSWER

    name: str = Field(examples=["llama-3.3-70b"])
    kind: str = Field(description="model, or what else the file is: mmproj, lora, imatrix …", examples=["model"])
    architecture: str = Field(examples=["llama"])
    parameters: int
    active_parameters: int
    trained_context_tokens: int
    quants: list[QuantSummary]


class ArchitectureRule(BaseModel):
    """How the engine reads a model of this architecture."""

    model_config = ANSWER

    name: str = Field(examples=["llama"])
    memory: str = Field(description="Class of cache that the engine makes for it.", examples=["attention"])
    layers: int
    draft_layers: int = Field(description="Layers that only speculation runs.")
    windowed_layers: int = Field(description="Layers that attend to a sliding window.")
    window_tokens: int | None = Field(description="Length of the window.")
    recurrent_layers: int = Field(description="Layers with a state instead of a cache.")
    experts: int = Field(description="Routed experts of each mixture; 0 in a dense model.")
    rules_version: str


class ModelDocument(BaseModel):
    """One model at one quantisation."""

    model_config = ANSWER

    reference: str = Field(description="What a PlanRequest names it by.", examples=["llama-3.3-70b:Q4_K_M"])
    name: str
    quant: str
    id: str = Field(description="Digest of metadata and tensor table.")
    kind: str = Field(
        description="model, mmproj, lora, control-vector, imatrix, vocabulary or diffusion.", examples=["model"]
    )
    what: str = Field(description="The kind in words.", examples=["a language model"])
    format: str = Field(description="gguf, or safetensors for a checkpoint of Hugging Face.", examples=["gguf"])
    planned: bool = Field(description="Whether it can be planned.")
    not_planned: str | None = Field(description="Why not, and what to plan instead.")
    architecture: str
    architecture_rule: ArchitectureRule | None = Field(description="The rules it is planned by.")
    tensor_count: int
    tensor_data_bytes: int
    parameters: int | None = Field(description="Null where packed weights hide the number.")
    active_parameters: int | None = Field(description="Parameters that one token passes.")
    trained_context_tokens: int | None
    bytes_by_role: dict[str, int] = Field(description="Bytes of the tensors by what they are for, the most first.")
    bytes_by_type: dict[str, int] = Field(description="Bytes of the tensors by their type, the most first.")
    kv_bytes_per_token: dict[str, float] = Field(
        description="What one more token of context adds to the caches, by type of cache (K and V alike), once the "
        "context is longer than every window; types that the engine refuses for this model are left out.",
        examples=[{"f16": 327680}],
    )
    kv_constant_bytes: dict[str, int] = Field(
        description="What the caches of one stream hold beside that: sliding windows and recurrent state."
    )
    aliases: list[str]
    source: str | None = Field(description="Where it was read from; null for models that ship with the service.")
    notes: list[str] = Field(description="What was read into the reference.")
