"""The rig of a request as the core reasons about it."""

from collections.abc import Iterator, Sequence
from functools import lru_cache

from service.catalog.gpus import GpuCatalog, GpuOptions, InlineGpu, inline_gpu
from service.contract import rig as contract
from service.core.machine import DEFAULT_MACHINE
from service.core.problems import Unsupported, concerning
from service.core.types import Gpu, Host, Rig
from service.planning.machine import machine_of

# llama_max_devices, src/llama.cpp:80 (llama.cpp in llama-cpp-python 0.3.36)
MAX_DEVICES = 16


def rig_of(request: contract.RigRequest, catalogue: GpuCatalog, *, most_devices: int = MAX_DEVICES) -> Rig:
    """Resolve every card, in order.

    Raises UnknownGpu, InvalidRequest or Contradiction for a card or for what surrounds it, Unsupported for more devices
    than the engine takes.
    """
    host = Host(
        ram_bytes=request.host.ram_bytes,
        ram_bandwidth_bytes_per_s=request.host.ram_bandwidth_bytes_per_s,
        cpu=request.host.cpu,
    )
    gpus: list[Gpu] = []
    for index, entry in enumerate(request.gpus):
        with concerning(f"rig.gpus.{index}"):
            gpus.extend(_devices(entry, catalogue, host))
        if len(gpus) > most_devices:
            raise Unsupported(
                f"The rig has more than {most_devices} devices, the most that the engine takes: leave some out.",
                fields=("rig.gpus",),
            )
    machine = machine_of(request, gpus)
    if machine is DEFAULT_MACHINE:
        return _of_cards(tuple(gpus), host)
    return _same(Rig(gpus=tuple(gpus), host=host, machine=machine))


@lru_cache(maxsize=1024)
def _same(rig: Rig) -> Rig:
    """The same object for equal rigs: what is remembered per rig is then found without comparing every figure."""
    return rig


@lru_cache(maxsize=1024)
def _of_cards(gpus: tuple[Gpu, ...], host: Host) -> Rig:
    """The rig of these cards where nothing is said of the machine around them."""
    return _same(Rig(gpus=gpus, host=host))


def _devices(entry: str | contract.GpuRequest, catalogue: GpuCatalog, host: Host) -> Sequence[Gpu]:
    if isinstance(entry, str):
        return catalogue.gpus(entry, host=host)
    options = GpuOptions(
        free_bytes=entry.free_bytes,
        power_limit_w=entry.power_limit_w,
        pcie_gen=entry.pcie_gen,
        pcie_lanes=entry.pcie_lanes,
        backend=entry.backend,
        behind=entry.behind,
        numa_node=entry.numa_node,
    )
    if isinstance(entry.gpu, str):
        return catalogue.gpus(entry.gpu, options, host) * entry.count
    card = InlineGpu(
        name=entry.gpu.name,
        vram_bytes=entry.gpu.vram_bytes,
        backend=entry.gpu.backend,
        bandwidth_bytes_per_s=entry.gpu.bandwidth_bytes_per_s,
        fp16_tensor_flops=entry.gpu.fp16_tensor_flops,
        tdp_w=entry.gpu.tdp_w,
        compute_capability=entry.gpu.compute_capability,
    )
    return (inline_gpu(card, options),) * entry.count


# values of a card that a plan is computed from, as its record calls them
PLANNED_WITH = frozenset(
    {
        "vram_bytes",
        "vram_reported_bytes",
        "memory_bandwidth_bytes_per_s",
        "fp32_flops",
        "fp16_tensor_dense_flops",
        "compute_capability",
        "tdp_w",
    }
)


def unverified_values(rig: Rig, catalogue: GpuCatalog) -> Iterator[tuple[str, Sequence[str]]]:
    """Cards of the rig with the values that a plan uses and that were not re-read at their source."""
    for slug in dict.fromkeys(gpu.slug for gpu in rig.gpus):
        record = catalogue.names.records.get(slug)
        unverified = _used(record.unverified, has_shader_rate=bool(record.fp32_flops)) if record else ()
        if unverified:
            yield slug, unverified


@lru_cache(maxsize=1024)
def _used(values: frozenset[str], *, has_shader_rate: bool) -> Sequence[str]:
    """Those of a card's values that a plan uses; the tensor rate stands in for a shader rate that is not known."""
    return sorted(values & (PLANNED_WITH - ({"fp16_tensor_dense_flops"} if has_shader_rate else set())))
