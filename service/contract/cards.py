"""A card as the catalogue keeps it: with the keys and units of hardware_db (gpu_family.schema.json).

Sizes are binary (GiB, MiB), rates decimal; every figure is the whole board's.
"""

from datetime import date
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, model_validator

from service.contract.quantities import REQUEST, Flag, Text, Whole, no_truth

# what is not much smaller can be divided by
Figure: TypeAlias = Annotated[float, Field(strict=True, ge=1e-6, le=1e9)]
Size: TypeAlias = Annotated[Whole, Field(ge=1, le=2**30)]
Slug: TypeAlias = Annotated[str, Field(strict=True, pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=80)]

EXAMPLE_CARD: dict[str, JsonValue] = {
    "slug": "lab-card", "name": "Lab Card 24GB", "vendor": "NVIDIA", "architecture": "Ampere",
    "compute_capability": "8.6", "vram_gib": 24, "memory_type": "GDDR6X", "memory_bandwidth_gb_per_s": 936.2,
    "tdp_w": 350, "pcie_gen": 4, "pcie_lanes": 16, "segment": "workstation", "source_url": "https://lab.example/cards",
    "as_of": "2026-11-30",
}  # fmt: skip


class CardFacts(BaseModel):
    """One card with its figures, each the whole board's; what is left out is not known."""

    model_config = ConfigDict(**REQUEST, json_schema_extra={"examples": [EXAMPLE_CARD]})

    slug: Slug = Field(description="What requests name it by.", examples=["lab-card"])
    name: Text = Field(description="The maker's name for it; words in brackets need not be said.")
    vendor: Literal["AMD", "Apple", "Intel", "NVIDIA"]
    aliases: Annotated[list[Text], Field(min_length=1, max_length=32)] | None = Field(
        None, description="Whole other names."
    )
    architecture: Text | None = Field(None, description="Its generation.", examples=["Ampere"])
    compute_capability: Annotated[str, Field(pattern=r"^([0-9]{1,2}\.[0-9]|gfx[0-9a-f]{1,8})$")] | None = None
    vram_gib: Size | None = Field(None, description="Nominal size; for unified memory that of the largest machine.")
    memory_options_gib: Annotated[list[Size], Field(min_length=1, max_length=32)] | None = Field(
        None, description="Sizes that machines with it are sold with."
    )
    devices_per_board: Annotated[Whole, Field(ge=2, le=16)] | None = Field(
        None, description="How many devices software sees, where it is more than one."
    )
    vram_reported_mib: Size | None = Field(None, description="Total as the driver's own tool prints it.")
    memory_type: Text | None = Field(None, examples=["GDDR6X"])
    memory_bandwidth_gb_per_s: Figure | None = None
    fp32_tflops: Figure | None = None
    fp16_vector_tflops: Figure | None = None
    fp16_tensor_dense_tflops: Figure | None = None
    int8_tensor_dense_tops: Figure | None = None
    fp8_dense_tflops: Figure | None = None
    tdp_w: Figure | None = None
    recommended_psu_w: Figure | None = None
    power_connectors: Text | None = None
    slot_width: Literal["1", "2", "3", "SXM", "OAM", "SoC", "superchip"] | None = None
    pcie_gen: Annotated[Whole, Field(ge=1, le=7)] | None = None
    pcie_lanes: Annotated[Literal[1, 2, 4, 8, 16] | None, BeforeValidator(no_truth)] = None
    nvlink: Literal["none", "bridge", "mesh", "switch"] = "none"
    nvlink_total_bidirectional_gb_per_s: Figure | None = None
    nvlink_max_gpus: Annotated[Whole, Field(ge=2, le=1024)] | None = None
    other_fabric: Text | None = None
    other_fabric_gb_per_s: Figure | None = None
    pcie_p2p: Literal["yes", "no", "nvlink_only", "unknown"] = "unknown"
    unified_memory: Flag = False
    memory_policy: Literal["amd-apu", "amd-apu-large", "jetson", "linux", "macos", "macos-26"] | None = Field(
        None, description="How the system shares its memory; for unified memory only, and needed there."
    )
    system_power_w: Figure | None = None
    segment: Literal["consumer", "datacenter", "laptop", "soc", "workstation"]
    release_date: Annotated[str, Field(pattern=r"^20[0-9]{2}(-([0-9]{2}(-[0-9]{2})?|Q[1-4]))?$")] | None = None
    source_url: Annotated[str, Field(pattern=r"^https://[^\s]+$", max_length=2000)] = Field(
        description="Where its figures can be read."
    )
    as_of: date = Field(description="Day on which they were read there.")
    notes: Text | None = None
    unverified: Annotated[list[Text], Field(max_length=64)] = Field(
        default_factory=list, description="Keys whose value was not read at source_url."
    )

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.unified_memory != (self.memory_policy is not None):
            raise ValueError("must have memory_policy with unified memory, and only then")
        unknown = sorted(set(self.unverified) - set(type(self).model_fields))
        if unknown:
            raise ValueError(f"unverified names {unknown[0]!r}, which is no key of a card")
        return self
