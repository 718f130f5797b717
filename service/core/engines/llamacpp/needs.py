"""Needs of a placement on every device and the host, for the verdict."""

from collections.abc import Sequence

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.placement import DevicePlacement, Placement
from service.core.engines.llamacpp.runtime_pool import runtime_pool_bytes
from service.core.memory import Need
from service.core.types import Gpu, Host, Model, Rig


def overhead_bytes(model: Model, hp: Hparams, placement: Placement, device: DevicePlacement) -> int:
    """Bytes taken once the engine runs: scratch of reductions, and the backend's pool on a card that holds anything."""
    if device.weights_bytes == 0:
        return device.reduction_bytes
    return device.reduction_bytes + runtime_pool_bytes(model, hp, placement.ctx, device.backend)


def needs_of(model: Model, hp: Hparams, rig: Rig, placement: Placement) -> tuple[Need, ...]:
    """One need per device, in device order, and the host's last."""
    pools = {device.backend: 0 for device in placement.devices if device.weights_bytes}
    for backend in pools:
        pools[backend] = runtime_pool_bytes(model, hp, placement.ctx, backend)
    totals = [
        device.total_bytes + (pools[device.backend] if device.weights_bytes else 0) for device in placement.devices
    ]
    devices = [Need(total, gpu.usable_bytes) for total, gpu in zip(totals, rig.gpus, strict=True)]
    return (*devices, host_need(rig.host, rig.gpus, totals, placement.host.total_bytes))


def host_need(host: Host, gpus: Sequence[Gpu], device_totals: Sequence[int], host_bytes: int) -> Need:
    """Need of main memory, of which cards without memory of their own take their part."""
    shared = sum([total for total, gpu in zip(device_totals, gpus, strict=True) if gpu.unified_memory])
    return Need(total_bytes=host_bytes + shared, usable_bytes=host.ram_bytes)
