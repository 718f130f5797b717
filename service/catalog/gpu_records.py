"""Cards as hardware_db and the database hold them: facts in customary units, read into SI with their provenance."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import tomli

from service.builtin import builtin_folder
from service.core.types import Backend, Provenance
from service.core.unified_memory import UnifiedPolicy
from service.core.units import GIB, MIB

Vendor: TypeAlias = Literal["AMD", "Apple", "Intel", "NVIDIA"]
Segment: TypeAlias = Literal["consumer", "datacenter", "laptop", "soc", "workstation"]
# what JSON can hold; the shape of a record is hardware_db/gpu_family.schema.json
Facts: TypeAlias = Mapping[str, Any]

# ending of a key in a file → ending of the field, and the factor between them. Memory sizes are binary, rates decimal.
UNITS: tuple[tuple[str, str, float], ...] = (
    ("_gib", "_bytes", GIB),
    ("_mib", "_bytes", MIB),
    ("_gb_per_s", "_bytes_per_s", 1e9),
    ("_tflops", "_flops", 1e12),
    ("_tops", "_ops_per_s", 1e12),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRecord:
    """One device of the catalogue in SI units; None where the catalogue does not know.

    vram_bytes: nominal size ("24 GB" are 24 GiB), for unified memory that of the largest machine sold;
    vram_reported_bytes: what the driver's own tool (nvidia-smi, deviceQuery) prints as total.
    memory_policy: how the system shares memory with it, for unified memory only;
    devices_per_board: how many devices software sees on it; every figure is the whole board's.
    unverified: fields whose value was not re-read at `source_url`.
    """

    slug: str
    name: str
    vendor: Vendor
    aliases: tuple[str, ...] = ()
    architecture: str | None = None
    compute_capability: str | None = None
    vram_bytes: int | None = None
    memory_options_bytes: tuple[int, ...] = ()
    devices_per_board: int = 1
    vram_reported_bytes: int | None = None
    memory_type: str | None = None
    memory_bandwidth_bytes_per_s: float | None = None
    fp32_flops: float | None = None
    fp16_vector_flops: float | None = None
    fp16_tensor_dense_flops: float | None = None
    int8_tensor_dense_ops_per_s: float | None = None
    fp8_dense_flops: float | None = None
    tdp_w: float | None = None
    recommended_psu_w: float | None = None
    power_connectors: str | None = None
    slot_width: str | None = None
    pcie_gen: int | None = None
    pcie_lanes: int | None = None
    nvlink: Literal["none", "bridge", "mesh", "switch"] = "none"
    nvlink_total_bidirectional_bytes_per_s: float | None = None
    nvlink_max_gpus: int | None = None
    other_fabric: str | None = None
    other_fabric_bytes_per_s: float | None = None
    pcie_p2p: Literal["yes", "no", "nvlink_only", "unknown"] = "unknown"
    unified_memory: bool = False
    memory_policy: UnifiedPolicy | None = None
    system_power_w: float | None = None
    segment: Segment
    release_date: str | None = None
    source_url: str
    as_of: str
    notes: str | None = None
    unverified: frozenset[str] = frozenset()

    def provenance(self, field: str) -> Provenance:
        """Where the value of `field` comes from."""
        return Provenance(source=self.source_url, verified=field not in self.unverified)


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorRecord:
    """Which backends drive a vendor's cards (hardware_db/vendors.toml)."""

    default_backend: Backend
    backends: tuple[Backend, ...]
    reason: str
    source: str


def record_of(facts: Facts) -> GpuRecord:
    """Read a card's facts, in the units and under the keys of hardware_db, into a record."""
    values = {field_name(key): _in_si(key, value) for key, value in facts.items()}
    values["unverified"] = frozenset(field_name(key) for key in facts.get("unverified", ()))
    values["as_of"] = str(facts["as_of"])
    return GpuRecord(**values)


def builtin_gpu_facts() -> Iterator[dict[str, Any]]:
    """Every card of hardware_db as JSON-ready facts, family by family: what the database is seeded with."""
    for path in sorted((builtin_folder("hardware_db") / "gpus").glob("*.toml")):
        yield from family_facts(path)


def family_facts(path: Path) -> Iterator[dict[str, Any]]:
    """The cards of one family file, each with its vendor; dates become text."""
    family = tomli.loads(path.read_text("utf-8"))
    for facts in family["gpu"]:
        yield {**facts, "vendor": family["vendor"], "as_of": facts["as_of"].isoformat()}


def iter_gpu_records() -> Iterator[GpuRecord]:
    """Every card of hardware_db."""
    return (record_of(facts) for facts in builtin_gpu_facts())


@cache
def vendors() -> Mapping[str, VendorRecord]:
    """Read hardware_db/vendors.toml, once."""
    table = tomli.loads((builtin_folder("hardware_db") / "vendors.toml").read_text("utf-8"))
    names = {field.name for field in fields(VendorRecord)}
    return {
        vendor: VendorRecord(**{key: _frozen(value) for key, value in facts.items() if key in names})
        for vendor, facts in table.items()
        if isinstance(facts, dict)
    }


@cache
def field_name(key: str) -> str:
    """Name of the record's field that holds the value of `key`, in SI units."""
    for ending, si_ending, _ in UNITS:
        if key.endswith(ending):
            return key.removesuffix(ending) + si_ending
    return key


@cache
def _factor(key: str) -> float | None:
    return next((factor for ending, _, factor in UNITS if key.endswith(ending)), None)


def _in_si(key: str, value: Any) -> Any:
    factor = _factor(key)
    if factor is None:
        return _frozen(value)
    if isinstance(value, list):
        return tuple(_in_si(key, item) for item in value)
    whole = round(value * factor)
    return whole if isinstance(factor, int) else float(whole)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
