"""What the system lets a GPU use of memory that it shares with the processor."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from service.core.memory_capacity import Capacity
from service.core.units import GIB, MIB

UnifiedPolicy: TypeAlias = Literal["amd-apu", "amd-apu-large", "jetson", "linux", "macos", "macos-26"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedMemoryRule:
    """Usable is RAM * fraction - base_bytes, with the fraction of the largest size in GiB that is not above the RAM.

    devices: machines seen; error: largest relative error over them; note: what changes the figure.
    """

    fraction_from_ram_gib: tuple[tuple[int, float], ...]
    base_bytes: int = 0
    devices: int
    error: float
    source: str
    note: str


SHARED_MEMORY = "hardware_db/idle_memory.toml, as of 2026-11-29"

RULES: Mapping[UnifiedPolicy, SharedMemoryRule] = {
    # recommendedMaxWorkingSetSize, which llama.cpp takes as the size of the device (ggml-metal-device.m:1503)
    "macos": SharedMemoryRule(
        fraction_from_ram_gib=((0, 2 / 3), (36, 0.75)),
        devices=7,
        error=0.0001,
        source=f"Metal's recommendedMaxWorkingSetSize up to macOS 15, Macs with 16 to 128 GB ({SHARED_MEMORY})",
        note="macOS 26 grants 74 to 91 %, sysctl iogpu.wired_limit_mb more: state free_bytes then",
    ),
    "macos-26": SharedMemoryRule(
        fraction_from_ram_gib=(
            (0, 2 / 3),
            (16, 0.74),
            (32, 0.78),
            (64, 0.81),
            (128, 0.84),
            (256, 0.87),
            (512, 0.90625),
        ),
        devices=9,
        error=0.0001,
        source=f"Metal's recommendedMaxWorkingSetSize in macOS 26, Macs with 16 to 512 GB ({SHARED_MEMORY})",
        note="sysctl iogpu.wired_limit_mb raises it: state free_bytes then",
    ),
    # CUDA on an integrated device: free = MemAvailable of /proc/meminfo (ggml-cuda.cu:5055-5091)
    "linux": SharedMemoryRule(
        fraction_from_ram_gib=((0, 0.92),),
        devices=5,
        error=0.03,
        source=f"MemAvailable of idle DGX Spark ({SHARED_MEMORY})",
        note="what other programs hold comes off",
    ),
    "jetson": SharedMemoryRule(
        fraction_from_ram_gib=((0, 0.935),),
        base_bytes=3460 * MIB,
        devices=3,
        error=0.06,
        source=f"MemAvailable of idle Orin kits with 8, 16 and 64 GB ({SHARED_MEMORY})",
        note="a kit without a desktop has 1 to 2 GiB more",
    ),
    "amd-apu-large": SharedMemoryRule(
        fraction_from_ram_gib=((0, 0.75),),
        devices=6,
        error=0.45,
        source=f"the most that Windows and the BIOS give; systems seen had 52 to 99 % ({SHARED_MEMORY})",
        note="Linux on its defaults gives half: raise ttm.pages_limit or the BIOS share, or state free_bytes",
    ),
    "amd-apu": SharedMemoryRule(
        fraction_from_ram_gib=((0, 0.5),),
        devices=2,
        error=0.11,
        source=f"half of the RAM, the default of Linux and of Windows ({SHARED_MEMORY})",
        note="ttm.pages_limit or the BIOS share change it: state free_bytes then",
    ),
}


def unified_capacity(ram_bytes: int, policy: UnifiedPolicy, ram_basis: str) -> Capacity:
    """Capacity of a GPU that shares `ram_bytes` with the processor.

    Source: `RULES`.
    """
    rule = RULES[policy]
    fraction = next(share for from_gib, share in reversed(rule.fraction_from_ram_gib) if ram_bytes >= from_gib * GIB)
    usable = max(0, int(ram_bytes * fraction) - rule.base_bytes)
    share = f"{usable / GIB:.2f} of {ram_bytes / GIB:.0f} GiB ({ram_basis})"
    basis = f"{share} can be used by the GPU: {rule.source}; {rule.note}"
    return Capacity(total_bytes=usable, usable_bytes=usable, basis=basis)
