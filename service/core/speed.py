"""How fast tokens come: a roofline of memory reads and fixed times per device, in the order the engine works."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from service.core.links import pcie_bytes_per_s
from service.core.speed_constants import (
    ASSUMED_HOST_FP32_FLOPS,
    ASSUMED_PCIE,
    ASSUMED_RAM_BANDWIDTH_BYTES_PER_S,
    BACKENDS,
    LINK_FRACTION,
    TENSOR_RATE_FRACTION,
    generation_of,
)
from service.core.types import Gpu, Host

Basis = Literal["measured", "fitted", "modelled", "assumed"]
Limit = Literal["memory_bandwidth", "compute", "interconnect", "host_memory"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """What-if constants in place of the tables'; None keeps the tables'."""

    bandwidth_fraction: float | None = None
    fixed_s_per_device: float | None = None
    ignore_kv_reads: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeWork:
    """What one device or the host does for one decode step of all streams.

    weights_bytes and kv_bytes are read once per step; kernels counts weight matrices; flops are of the matrices.
    """

    weights_bytes: int = 0
    kv_bytes: int = 0
    kernels: int = 0
    flops: float = 0.0

    @property
    def read_bytes(self) -> int:
        """All bytes read in the step."""
        return self.weights_bytes + self.kv_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Processor:
    """Rates of one device or the host as decode and prefill reach them; None where a figure is missing."""

    name: str
    backend: str
    bandwidth_bytes_per_s: float | None
    bandwidth_fraction: float
    prefill_flops_per_s: float | None
    link_bytes_per_s: float = 0.0
    known_generation: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One part of a decode step."""

    what: str
    s: float


@dataclass(frozen=True, slots=True)
class CardTime:
    """Time of one card in a decode step, and how much of it does not depend on bytes."""

    name: str
    read_bytes: int
    s: float
    fixed_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Decode:
    """One decode step: its time per device, for the host and for the cards' meetings, and what limits it.

    counted: the devices whose times add up. host_read_bytes, meetings: what the host's and the meetings' times are for.
    """

    step_s: float
    device_s: tuple[float, ...]
    host_s: float
    meetings_s: float
    limited_by: Limit
    range_fraction: float
    basis: Basis
    counted: tuple[CardTime, ...]
    host_read_bytes: int
    meetings: int

    @property
    def steps(self) -> tuple[Step, ...]:
        """The parts that take time, in order, in words."""
        steps = []
        for card in self.counted:
            steps.append(Step(what=f"{card.name} reads {card.read_bytes / 1e9:.2f} GB", s=card.s - card.fixed_s))
            steps.append(Step(what=f"{card.name} fixed time", s=card.fixed_s))
        steps.append(Step(what=f"host reads {self.host_read_bytes / 1e9:.2f} GB", s=self.host_s))
        steps.append(Step(what=f"{self.meetings} reductions over the cards", s=self.meetings_s))
        return tuple([step for step in steps if step.s > 0])


def gpu_processor(gpu: Gpu, assumptions: Assumptions) -> Processor:
    """Rates of a card: its generation's share of the bandwidth, else its backend's, else what is assumed."""
    backend = BACKENDS[gpu.backend]
    generation = generation_of(gpu)
    fraction = generation.bandwidth_fraction if generation else backend.bandwidth_fraction
    if assumptions.bandwidth_fraction is not None:
        fraction = assumptions.bandwidth_fraction
    return Processor(
        name=gpu.slug,
        backend=gpu.backend,
        bandwidth_bytes_per_s=gpu.bandwidth_bytes_per_s or None,
        bandwidth_fraction=fraction,
        prefill_flops_per_s=prefill_flops_per_s(gpu),
        link_bytes_per_s=LINK_FRACTION
        * pcie_bytes_per_s(gpu.pcie_gen or ASSUMED_PCIE[0], gpu.pcie_lanes or ASSUMED_PCIE[1]),
        known_generation=generation is not None or gpu.backend not in ("cuda", "rpc"),
    )


def host_processor(host: Host, gpus: Sequence[Gpu]) -> Processor:
    """Rates of the host: the bandwidth stated, else that of memory it shares with a GPU, else what is assumed."""
    shared = [gpu.bandwidth_bytes_per_s for gpu in gpus if gpu.unified_memory and gpu.bandwidth_bytes_per_s]
    stated = host.ram_bandwidth_bytes_per_s or max(shared, default=None)
    row = BACKENDS["cpu"]
    return Processor(
        name="host",
        backend="cpu",
        bandwidth_bytes_per_s=stated or ASSUMED_RAM_BANDWIDTH_BYTES_PER_S,
        bandwidth_fraction=row.bandwidth_fraction,
        prefill_flops_per_s=ASSUMED_HOST_FP32_FLOPS * row.prefill_fp32_multiple,
        known_generation=stated is not None,
    )


def prefill_flops_per_s(gpu: Gpu) -> float | None:
    """Rate that prompt processing reaches: SM count * clock * the generation's multiple, not the marketed rate."""
    backend = BACKENDS[gpu.backend]
    generation = generation_of(gpu)
    multiple = generation.prefill_fp32_multiple if generation else backend.prefill_fp32_multiple
    if gpu.fp32_flops is not None:
        return gpu.fp32_flops * multiple
    if gpu.fp16_tensor_flops is not None:
        return gpu.fp16_tensor_flops * TENSOR_RATE_FRACTION
    return None


def device_decode_s(work: DecodeWork, processor: Processor, fixed_s: float) -> float:
    """Time of one device in one decode step: bytes / (bandwidth * share), or the arithmetic if longer, plus fixed."""
    if processor.bandwidth_bytes_per_s is None:
        return fixed_s
    reading_s = work.read_bytes / (processor.bandwidth_bytes_per_s * processor.bandwidth_fraction)
    computing_s = work.flops / processor.prefill_flops_per_s if processor.prefill_flops_per_s else 0.0
    return max(reading_s, computing_s) + fixed_s


def fixed_s(
    work: DecodeWork, processor: Processor, *, later_device: bool, is_moe: bool, overhead_factor: float,
    assumptions: Assumptions,
) -> float:  # fmt: skip
    """Time per token on one device that does not depend on bytes: kernel launches, the step itself, the hand-over."""
    if assumptions.fixed_s_per_device is not None:
        return assumptions.fixed_s_per_device
    row = BACKENDS[processor.backend]
    launches_s = work.kernels * row.kernel_s * (row.moe_kernel_factor if is_moe else 1.0)
    if later_device:
        return overhead_factor * launches_s + row.extra_device_s
    return overhead_factor * (launches_s + row.token_s)


def decode(
    devices: Sequence[tuple[DecodeWork, Processor]],
    host: tuple[DecodeWork, Processor],
    *,
    is_moe: bool,
    together: bool = False,
    syncs: int = 0,
    sync_s: float = 0.0,
    overhead_factor: float = 1.0,
    assumptions: Assumptions | None = None,
) -> Decode:
    """Time of one decode step.

    Layer split: devices work one after the other, so their times add up. Row and tensor split (`together`):
    they read at the same time and meet `syncs` times for `sync_s` each, so the slowest counts, plus the meetings.

    Source: speed study (service/core/speed_constants.py).
    """
    assumptions = assumptions or Assumptions()
    cards: list[CardTime] = []
    time_s = 0.0
    for work, processor in devices:
        fixed = whole_s = 0.0
        if work.read_bytes:
            fixed = fixed_s(work, processor, later_device=time_s > 0 and not together, is_moe=is_moe,
                            overhead_factor=overhead_factor, assumptions=assumptions)  # fmt: skip
            whole_s = device_decode_s(work, processor, fixed)
        time_s = max(time_s, whole_s) if together else time_s + whole_s
        cards.append(CardTime(processor.name, work.read_bytes, whole_s, fixed))
    host_s, meetings_s = _host_s(host, is_moe=is_moe), syncs * sync_s
    used = [p for work, p in [*devices, host] if work.read_bytes] or [host[1]]
    return Decode(
        step_s=time_s + host_s + meetings_s,
        device_s=tuple([card.s for card in cards]),
        host_s=host_s,
        meetings_s=meetings_s,
        limited_by=_limit(devices, time_s, host_s, meetings_s),
        range_fraction=max([_range_fraction(p) for p in used]),
        basis="modelled" if all(p.known_generation for p in used) else "assumed",
        counted=(max(cards, key=lambda card: card.s),) if together and cards else tuple(cards),
        host_read_bytes=host[0].read_bytes,
        meetings=syncs,
    )


def _host_s(host: tuple[DecodeWork, Processor], *, is_moe: bool) -> float:
    work, processor = host
    if work.read_bytes == 0:
        return 0.0
    row = BACKENDS[processor.backend]
    return device_decode_s(work, processor, work.kernels * row.kernel_s * (row.moe_kernel_factor if is_moe else 1.0))


def _range_fraction(processor: Processor) -> float:
    """Half-width of the range; twice as wide for a card whose generation has no row."""
    width = BACKENDS[processor.backend].decode_range_fraction
    return width if processor.known_generation else 2 * width


def _limit(
    devices: Sequence[tuple[DecodeWork, Processor]], devices_s: float, host_s: float, meetings_s: float
) -> Limit:  # fmt: skip
    if host_s > max(devices_s, meetings_s):
        return "host_memory"
    if meetings_s > devices_s:
        return "interconnect"
    reading_s = computing_s = 0.0
    for work, processor in devices:
        if processor.bandwidth_bytes_per_s:
            reading_s += work.read_bytes / (processor.bandwidth_bytes_per_s * processor.bandwidth_fraction)
        if processor.prefill_flops_per_s:
            computing_s += work.flops / processor.prefill_flops_per_s
    return "compute" if computing_s > reading_s else "memory_bandwidth"
