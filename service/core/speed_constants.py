"""Constants of the speed model: one row per backend or generation, each with its source.

Sources named here: "speed study" is the comparison with 3,754 public measurements described in the project's
domain notes on speed (5-fold cross-validation by GPU type); its error on CUDA decode is 7.1 % (476 cases).
"""

from dataclasses import dataclass

from service.core.types import Gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """Share of the advertised bandwidth that decode reaches on one generation of cards."""

    backend: str
    compute_capabilities: tuple[tuple[int, int], ...]
    label: str
    bandwidth_fraction: float
    # shader rate in units of 2 * FP32: what prompt processing reaches follows SMs * clock
    prefill_fp32_multiple: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendSpeed:
    """Overheads and ranges of one backend; *_range_fraction is the half-width of the range around the middle."""

    bandwidth_fraction: float
    kernel_s: float
    moe_kernel_factor: float
    token_s: float
    extra_device_s: float
    sync_s: float
    prefill_fp32_multiple: float
    expert_rows: float
    decode_range_fraction: float
    prefill_range_fraction: float
    source: str


GENERATIONS = (
    Generation(backend="cuda", compute_capabilities=((6, 0), (6, 1), (6, 2)), label="Pascal",
               bandwidth_fraction=0.67, prefill_fp32_multiple=1.7),
    Generation(backend="cuda", compute_capabilities=((7, 0), (7, 2), (7, 5)), label="Volta and Turing",
               bandwidth_fraction=0.68, prefill_fp32_multiple=3.0),
    Generation(backend="cuda", compute_capabilities=((8, 0),), label="A100",
               bandwidth_fraction=0.53, prefill_fp32_multiple=5.9),
    Generation(backend="cuda", compute_capabilities=((8, 6), (8, 7)), label="Ampere GeForce and workstation",
               bandwidth_fraction=0.84, prefill_fp32_multiple=1.7),
    Generation(backend="cuda", compute_capabilities=((8, 9),), label="Ada",
               bandwidth_fraction=0.93, prefill_fp32_multiple=1.25),
    Generation(backend="cuda", compute_capabilities=((9, 0),), label="Hopper",
               bandwidth_fraction=0.62, prefill_fp32_multiple=2.8),
    Generation(backend="cuda", compute_capabilities=((10, 0), (10, 3), (11, 0), (12, 0), (12, 1)), label="Blackwell",
               bandwidth_fraction=0.88, prefill_fp32_multiple=2.0),
)  # fmt: skip
GENERATIONS_SOURCE = (
    "speed study: share of peak bandwidth by generation; prefill follows SM count * clock, times the median over "
    "352 public llama-bench figures"
)

_STUDY = "speed study: share of peak bandwidth and time per kernel by backend"
BACKENDS = {
    "cuda": BackendSpeed(
        bandwidth_fraction=0.79, kernel_s=5.5e-6, moe_kernel_factor=1.23, token_s=0.12e-3, extra_device_s=0.51e-3,
        sync_s=50e-6, prefill_fp32_multiple=1.7, expert_rows=115, decode_range_fraction=0.15,
        prefill_range_fraction=0.6, source=_STUDY,
    ),
    "rocm": BackendSpeed(
        bandwidth_fraction=0.86, kernel_s=19.4e-6, moe_kernel_factor=1.0, token_s=0.12e-3, extra_device_s=0.51e-3,
        sync_s=25e-6, prefill_fp32_multiple=0.75, expert_rows=75, decode_range_fraction=0.3,
        prefill_range_fraction=1.0, source=_STUDY,
    ),
    "vulkan": BackendSpeed(
        bandwidth_fraction=0.88, kernel_s=9.3e-6, moe_kernel_factor=1.0, token_s=0.12e-3, extra_device_s=0.51e-3,
        sync_s=120e-6, prefill_fp32_multiple=0.4, expert_rows=49, decode_range_fraction=0.3,
        prefill_range_fraction=1.0, source=_STUDY,
    ),
    "metal": BackendSpeed(
        bandwidth_fraction=0.83, kernel_s=17.9e-6, moe_kernel_factor=1.0, token_s=0.12e-3, extra_device_s=0.51e-3,
        sync_s=120e-6, prefill_fp32_multiple=0.9, expert_rows=30, decode_range_fraction=0.3,
        prefill_range_fraction=0.5, source=_STUDY,
    ),
    "sycl": BackendSpeed(
        bandwidth_fraction=0.65, kernel_s=10.6e-6, moe_kernel_factor=2.6, token_s=0.12e-3, extra_device_s=0.51e-3,
        sync_s=22e-6, prefill_fp32_multiple=0.95, expert_rows=75, decode_range_fraction=0.6,
        prefill_range_fraction=1.0, source=_STUDY,
    ),
    "rpc": BackendSpeed(
        bandwidth_fraction=0.79, kernel_s=5.5e-6, moe_kernel_factor=1.23, token_s=0.12e-3, extra_device_s=0.51e-3,
        sync_s=120e-6, prefill_fp32_multiple=1.7, expert_rows=115, decode_range_fraction=0.6,
        prefill_range_fraction=1.0, source="assumed: as a CUDA card behind a network whose speed is not known",
    ),
    "cpu": BackendSpeed(
        bandwidth_fraction=0.46, kernel_s=2e-6, moe_kernel_factor=1.0, token_s=0.0, extra_device_s=0.0,
        sync_s=0.0, prefill_fp32_multiple=0.75, expert_rows=30, decode_range_fraction=0.6,
        prefill_range_fraction=1.0,
        source="median of 28 public llama-bench figures on Ryzen 7950X, Xeon 8480, Xeon 6454S and Apple M2 Max cores, "
        "0.3 to 0.8 of the memory bandwidth",
    ),
}  # fmt: skip

# Builds before this month spend more time per kernel and token. Source: speed study.
OLD_BUILDS_BEFORE = "2024-09"
OLD_BUILD_OVERHEAD_FACTOR = 2.06

# A meeting of two cards in row split, and what every further card adds. Source: speed study, 130 to 190 us with two
# cards, 355 to 515 us with six.
ROW_SYNC_S = 160e-6
ROW_SYNC_PER_CARD_S = 69e-6

# Part of a layer split's prefill that runs pipelined over ubatches. Source: speed study.
PIPELINED_SHARE = 0.72
# Rate of attention against that of the weights in prefill. Source: speed study, 0.2 to 0.45.
ATTENTION_RATE_FRACTION = 0.3
# Half-width of the range of prefill where cards share every layer: what their reductions cost depends on the rig.
TOGETHER_PREFILL_RANGE_FRACTION = 2.0
# Dense FP16 tensor rate that prefill reaches where the FP32 rate of a card is not known. Source: speed study, one
# efficiency for all cards has a median error of 34 %.
TENSOR_RATE_FRACTION = 0.6
# Share of a PCI Express link that weights copied to a card for a large batch reach. Source: measured copies, 0.84 of a
# generation 4 x4 and 0.89 of a generation 5 x16 link.
LINK_FRACTION = 0.85
ASSUMED_PCIE = (4, 16)

# Two channels of DDR5-5600, what most desktop machines have; assumed where a request does not say.
ASSUMED_RAM_BANDWIDTH_BYTES_PER_S = 2 * 8 * 5600e6
# Eight AVX2 cores at 4.5 GHz, 32 FP32 operations per cycle and core; assumed: processors are in no catalogue.
ASSUMED_HOST_FP32_FLOPS = 8 * 4.5e9 * 32


def generation_of(gpu: Gpu) -> Generation | None:
    """Row of a card's generation, None where only its backend has one."""
    for row in GENERATIONS:
        if row.backend == gpu.backend and gpu.compute_capability in row.compute_capabilities:
            return row
    return None
