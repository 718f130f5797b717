"""Cards of a request as the core reasons about them: by name from the catalogue, or by figures."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final

from service.catalog.boards import board_of
from service.catalog.gpu_capacity import card_capacity
from service.catalog.gpu_names import GpuNames, NamedGpu, parse_count
from service.catalog.gpu_records import GpuRecord, iter_gpu_records, vendors
from service.catalog.idle_memory import IdleMemory, idle_memory
from service.core.board import Attachment
from service.core.memory_capacity import Capacity, discrete_capacity, stated_capacity
from service.core.problems import Contradiction
from service.core.types import Backend, Gpu, Host

REMEMBERED = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuOptions:
    """What a request changes about a card; None leaves it as it is."""

    free_bytes: int | None = None
    power_limit_w: float | None = None
    pcie_gen: int | None = None
    pcie_lanes: int | None = None
    backend: Backend | None = None
    behind: Attachment | None = None
    numa_node: int | None = None


_UNCHANGED: Final = GpuOptions()
_ANY_HOST: Final = Host()


@dataclass(frozen=True, slots=True, kw_only=True)
class InlineGpu:
    """A card that is in no catalogue; vram_bytes is its size as its driver reports it."""

    name: str
    vram_bytes: int
    backend: Backend = "cuda"
    bandwidth_bytes_per_s: float | None = None
    fp16_tensor_flops: float | None = None
    tdp_w: float | None = None
    compute_capability: str | None = None


class GpuCatalog:
    """The cards that can be planned with: names, records and what is known of their memory."""

    def __init__(
        self, records: Iterable[GpuRecord], idle: Mapping[tuple[str, Backend], IdleMemory] | None = None
    ) -> None:
        self.names = GpuNames(records)
        self.idle = idle_memory() if idle is None else idle
        # requests name the same few cards again and again
        self._remembered = lru_cache(maxsize=REMEMBERED)(self._gpus)

    def gpus(self, text: str, options: GpuOptions | None = None, host: Host | None = None) -> tuple[Gpu, ...]:
        """Devices that "rtx-3090" or "2x rtx-4090" means, in order; a board with two devices gives both.

        Raises UnknownGpu, InvalidRequest or Contradiction.
        """
        return self._remembered(text, options or _UNCHANGED, host or _ANY_HOST)

    def _gpus(self, text: str, options: GpuOptions, host: Host) -> tuple[Gpu, ...]:
        count, name = parse_count(text)
        return tuple(self._devices(self.names.resolve(name), options, host)) * count

    def _devices(self, named: NamedGpu, options: GpuOptions, host: Host) -> Iterator[Gpu]:
        record = named.record
        backend = backend_of(record, options.backend)
        capacity = card_capacity(
            record,
            backend,
            idle=self.idle.get((record.slug, backend)),
            memory_bytes=(named.memory_bytes or host.ram_bytes) if record.unified_memory else None,
            free_bytes=options.free_bytes,
        )
        for number in range(1, record.devices_per_board + 1):
            yield _device(record, number, backend, capacity, options, host)


@cache
def builtin_gpus() -> GpuCatalog:
    """The catalogue of hardware_db, read once and without a database."""
    return GpuCatalog(iter_gpu_records())


def backend_of(record: GpuRecord, wanted: Backend | None = None) -> Backend:
    """Backend that drives a card: the vendor's own unless the request wants another that can.

    Raises Contradiction where `wanted` cannot drive it. Source: hardware_db/vendors.toml.
    """
    vendor = vendors()[record.vendor]
    if wanted is None:
        return vendor.default_backend
    if wanted not in vendor.backends:
        raise Contradiction(
            f"{record.name} cannot be driven by {wanted}: use one of {', '.join(vendor.backends)}",
            suggestions=vendor.backends,
            fields=("rig.gpus",),
        )
    return wanted


def inline_gpu(card: InlineGpu, options: GpuOptions | None = None) -> Gpu:
    """A card described by its figures; options override them.

    Raises Contradiction for the backend cpu, which is no device, and where more is free than the card has.
    """
    options = options or GpuOptions()
    backend = options.backend or card.backend
    if backend == "cpu":
        raise Contradiction(f"{card.name}: a rig without GPUs is planned on the host; cpu is no backend of a card")
    capacity = _inline_capacity(card, backend, options.free_bytes)
    return Gpu(
        slug=card.name,
        name=card.name,
        backend=backend,
        compute_capability=_cuda_version(card.compute_capability),
        total_bytes=capacity.total_bytes,
        usable_bytes=capacity.usable_bytes,
        usable_basis=capacity.basis,
        bandwidth_bytes_per_s=card.bandwidth_bytes_per_s,
        fp16_tensor_flops=card.fp16_tensor_flops,
        tdp_w=card.tdp_w,
        power_limit_w=options.power_limit_w,
        pcie_gen=options.pcie_gen,
        pcie_lanes=options.pcie_lanes,
        behind=options.behind,
        numa_node=options.numa_node,
    )


def _inline_capacity(card: InlineGpu, backend: Backend, free_bytes: int | None) -> Capacity:
    if free_bytes is None:
        return discrete_capacity(card.vram_bytes, backend, "vram_bytes, as stated in the request")
    if free_bytes > card.vram_bytes:
        raise Contradiction(f"{card.name} has {card.vram_bytes} bytes of memory: {free_bytes} cannot be free")
    return stated_capacity(free_bytes, card.vram_bytes)


def _device(
    record: GpuRecord, number: int, backend: Backend, capacity: Capacity, options: GpuOptions, host: Host
) -> Gpu:
    """The `number`th device of a card: its share of the board's figures, its link as fast as card and slot allow."""
    parts = record.devices_per_board
    bandwidth = record.memory_bandwidth_bytes_per_s
    if bandwidth is None and record.unified_memory:
        bandwidth = host.ram_bandwidth_bytes_per_s
    return Gpu(
        slug=record.slug,
        name=record.name if parts == 1 else f"{record.name}, device {number} of {parts}",
        backend=backend,
        generation=record.architecture,
        compute_capability=_cuda_version(record.compute_capability),
        total_bytes=capacity.total_bytes,
        usable_bytes=capacity.usable_bytes,
        usable_basis=capacity.basis,
        bandwidth_bytes_per_s=_share(bandwidth, parts),
        fp32_flops=_share(record.fp32_flops, parts),
        fp16_tensor_flops=_share(record.fp16_tensor_dense_flops, parts),
        tdp_w=_share(record.tdp_w, parts),
        power_limit_w=_share(options.power_limit_w, parts),
        pcie_gen=_link(record, record.pcie_gen, options.pcie_gen, "pcie_gen"),
        pcie_lanes=_link(record, record.pcie_lanes, options.pcie_lanes, "pcie_lanes"),
        behind=options.behind,
        numa_node=options.numa_node,
        board=board_of(record),
        unified_memory=record.unified_memory,
        # Metal and a remote server call any device a GPU (ggml_backend_dev_type of their backends)
        integrated=record.unified_memory and backend not in {"metal", "rpc"},
    )


def _share(value: float | None, parts: int) -> float | None:
    return None if value is None else value / parts


def _link(record: GpuRecord, own: int | None, slot: int | None, field: str) -> int | None:
    """Generation or lanes of the link: the smaller of what card and slot have."""
    if slot is None:
        return own
    if own is None:
        raise Contradiction(f"{record.name} sits in no PCI Express slot: leave {field} out", fields=("rig.gpus",))
    return min(own, slot)


def _cuda_version(text: str | None) -> tuple[int, int] | None:
    """(8, 6) of "8.6"; None for AMD's "gfx1100" and where there is none."""
    major, _, minor = (text or "").partition(".")
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else None
