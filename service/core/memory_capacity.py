"""How much memory a program really gets on an idle device, and where that number comes from.

A driver reports less than the box says, keeps a reserve, and every process pays for its own context. Where an idle
device has been seen, its own figure is used (`seen_capacity`); else the rules below, with constants that carry their
source, the number of devices they were derived from and their error.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from service.core.types import Backend
from service.core.units import GIB, MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """total_bytes: what the engine sees as the device's size; usable_bytes: what it can fill; basis: why, in words."""

    total_bytes: int
    usable_bytes: int
    basis: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """What a backend's driver and context take off the reported size: `base_bytes` + `fraction` of it.

    devices: how many were seen; error_bytes: mean absolute error of `usable` over them. reserve_bytes: the part of it
    that the driver keeps, so that engines never see it: mean of what cards report to nvidia-smi and to programs.
    """

    reserve_bytes: int = 0
    base_bytes: int
    fraction: float
    devices: int
    error_bytes: int
    source: str


IDLE_MEMORY = "hardware_db/idle_memory.toml, as of 2026-11-29"

OVERHEADS: Mapping[Backend, Overhead] = {
    # Linux without a display. Windows keeps about 6.5 % of the card instead (8 GeForce cards seen, 5 to 8.5 %).
    "cuda": Overhead(
        reserve_bytes=461 * MIB,
        base_bytes=510 * MIB,
        fraction=0.0075,
        devices=10,
        error_bytes=100 * MIB,
        source=IDLE_MEMORY,
    ),
    "rocm": Overhead(base_bytes=264 * MIB, fraction=0.0, devices=3, error_bytes=74 * MIB, source=IDLE_MEMORY),
    # its budget leaves out what the desktop holds: 0.8 % (Radeon) to 4.3 % (GeForce)
    "vulkan": Overhead(base_bytes=0, fraction=0.0257, devices=2, error_bytes=352 * MIB, source=IDLE_MEMORY),
    "sycl": Overhead(base_bytes=0, fraction=0.0373, devices=2, error_bytes=450 * MIB, source=IDLE_MEMORY),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedShare:
    """Share of the nominal size that NVIDIA's driver reports, by memory type; `ecc`: with inline ECC switched on."""

    memory_types: frozenset[str]
    ecc: bool
    fraction: float
    devices: int
    error: float


# Derived from the cards of hardware_db that have both sizes; a test recomputes n and error.
REPORTED_SHARES: tuple[ReportedShare, ...] = (
    ReportedShare(memory_types=frozenset({"GDDR6"}), ecc=True, fraction=0.9373, devices=4, error=0.0001),
    ReportedShare(memory_types=frozenset({"HBM3", "HBM3e"}), ecc=False, fraction=0.9955, devices=5, error=0.0003),
    ReportedShare(memory_types=frozenset({"GDDR7"}), ecc=False, fraction=0.9953, devices=8, error=0.0003),
    ReportedShare(memory_types=frozenset({"GDDR6", "GDDR6X"}), ecc=False, fraction=0.9997, devices=16, error=0.0002),
)


def reported_bytes(nominal_bytes: int, memory_type: str | None, *, ecc: bool) -> tuple[int, str]:
    """Size that NVIDIA's driver reports for a card of `nominal_bytes`, with its basis; other types report all of it.

    Source: `REPORTED_SHARES`. GDDR memory has no spare bits for ECC: switched on, it takes 1/16 of the memory.
    """
    for row in REPORTED_SHARES:
        if memory_type in row.memory_types and row.ecc == (ecc and memory_type == "GDDR6"):
            seen = f"{row.fraction:.2%} of the nominal size, as {row.devices} cards with {memory_type} report"
            return round(nominal_bytes * row.fraction), seen
    return nominal_bytes, "the nominal size"


def seen_capacity(free_bytes: int, total_bytes: int, source: str) -> Capacity:
    """Capacity of a device that has been seen idle."""
    basis = f"free on an idle device, as llama.cpp reports it at start: {_mib(free_bytes)} ({source})"
    return Capacity(total_bytes=total_bytes, usable_bytes=free_bytes, basis=basis)


def stated_capacity(free_bytes: int, total_bytes: int) -> Capacity:
    """Capacity as the user states it, taken as it is."""
    return Capacity(
        total_bytes=max(total_bytes, free_bytes), usable_bytes=free_bytes, basis="free_bytes, as stated in the request"
    )


def discrete_capacity(total_bytes: int, backend: Backend, total_basis: str) -> Capacity:
    """Capacity of a card with memory of its own, of which its driver reports `total_bytes`.

    Source: `OVERHEADS`. A backend without a row there (a remote server, Metal) already reports what can be filled.
    """
    overhead = OVERHEADS.get(backend)
    if overhead is None:
        return Capacity(total_bytes=total_bytes, usable_bytes=total_bytes, basis=f"{total_basis}: {_mib(total_bytes)}")
    taken = overhead.base_bytes + round(total_bytes * overhead.fraction)
    usable = max(0, total_bytes - taken)
    basis = (
        f"{total_basis} ({_mib(total_bytes)}) less {_mib(taken)} for driver and context on an idle card: "
        f"{_rule(overhead.base_bytes, overhead.fraction)}, {overhead.devices} devices seen, "
        f"mean error {_mib(overhead.error_bytes)} ({overhead.source})"
    )
    return Capacity(total_bytes=max(usable, total_bytes - overhead.reserve_bytes), usable_bytes=usable, basis=basis)


def _rule(base_bytes: int, fraction: float) -> str:
    parts = [_mib(base_bytes)] if base_bytes else []
    return " + ".join(parts + ([f"{fraction:.2%}"] if fraction else []))


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / GIB:.2f} GiB" if size_bytes >= GIB else f"{size_bytes / MIB:.0f} MiB"
