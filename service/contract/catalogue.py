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
    architecture: str = Field(examples=["llama"])
    parameters: int
    active_parameters: int
    trained_context_tokens: int
    quants: list[QuantSummary]


class ModelDocument(BaseModel):
    """One model at one quantisation."""

    model_config = ANSWER

    reference: str = Field(examples=["llama-3.3-70b:Q4_K_M"])
    name: str
    quant: str
    id: str = Field(description="Digest of metadata and tensor table.")
    architecture: str
    tensor_count: int
    tensor_data_bytes: int
    parameters: int
    active_parameters: int
    trained_context_tokens: int
    notes: list[str] = Field(description="What was read into the reference.")
