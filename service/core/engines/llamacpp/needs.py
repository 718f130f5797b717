"""Needs of a placement on every device and the host, for the verdict."""

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.placement import DevicePlacement, Placement
from service.core.engines.llamacpp.runtime_pool import runtime_pool_bytes
from service.core.memory import Need
from service.core.types import Backend, Model, Rig


def overhead_bytes(model: Model, hp: Hparams, placement: Placement, device: DevicePlacement) -> int:
    """Bytes taken once the engine runs: scratch of reductions, and the backend's pool on a card that holds anything."""
    if device.weights_bytes == 0:
        return device.reduction_bytes
    return device.reduction_bytes + runtime_pool_bytes(model, hp, placement.ctx, device.backend)


def overhead_of(device: DevicePlacement, need: Need) -> int:
    """The same read off a card's need, where that is known."""
    return need.total_bytes - device.total_bytes + device.reduction_bytes


def needs_of(model: Model, hp: Hparams, rig: Rig, placement: Placement) -> tuple[Need, ...]:
    """One need per device, in device order, and the host's last, with those of cards without memory of their own."""
    pools: dict[Backend, int] = {}
    needs, shared_bytes = [], 0
    for device, gpu in zip(placement.devices, rig.gpus, strict=True):
        total_bytes, backend = device.total_bytes, device.backend
        if device.weights.weights_bytes:
            if backend not in pools:
                pools[backend] = runtime_pool_bytes(model, hp, placement.ctx, backend)
            total_bytes += pools[backend]
        if gpu.unified_memory:
            shared_bytes += total_bytes
        needs.append(Need(total_bytes, gpu.usable_bytes))
    return (*needs, Need(placement.host.total_bytes + shared_bytes, rig.host.ram_bytes))
