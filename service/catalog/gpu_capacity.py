"""Usable memory of a catalogue card in a given rig: which rule applies to it, and on which figures."""

from service.catalog.gpu_records import GpuRecord
from service.catalog.idle_memory import IdleMemory
from service.core.memory_capacity import (
    Capacity,
    discrete_capacity,
    reported_bytes,
    seen_capacity,
    stated_capacity,
)
from service.core.problems import Contradiction, InvalidRequest
from service.core.types import Backend
from service.core.unified_memory import unified_capacity

# RAM sizes are stated by people and by systems that keep a little for themselves
RAM_TOLERANCE = 1.05


def card_capacity(
    record: GpuRecord,
    backend: Backend,
    *,
    idle: IdleMemory | None,
    memory_bytes: int | None = None,
    free_bytes: int | None = None,
) -> Capacity:
    """Capacity of one device of the card.

    memory_bytes: size of the machine's memory where the card shares it and the request says; free_bytes: as stated.
    Raises InvalidRequest where the memory size is neither known nor stated, Contradiction where a statement
    exceeds what the card can have.
    """
    ceiling = _largest_bytes(record, memory_bytes)
    if free_bytes is not None:
        if ceiling is not None and free_bytes > ceiling:
            raise Contradiction(
                f"{record.name} has {ceiling} bytes of memory: {free_bytes} cannot be free", fields=("rig.gpus",)
            )
        return stated_capacity(free_bytes, ceiling or free_bytes)
    if record.unified_memory:
        return _shared(record, backend, idle, memory_bytes)
    return _own(record, backend, idle)


def _own(record: GpuRecord, backend: Backend, idle: IdleMemory | None) -> Capacity:
    if record.vram_bytes is None:
        raise InvalidRequest(
            f"the catalogue does not know the memory size of {record.name}: state free_bytes, "
            "or describe the card by its figures (name, vram_bytes, bandwidth_bytes_per_s)",
            fields=("rig.gpus",),
        )
    total_bytes, total_basis = _total(record)
    if idle is not None:
        return seen_capacity(idle.free_bytes, idle.total_bytes or total_bytes, idle.source)
    return discrete_capacity(total_bytes, backend, total_basis)


def _total(record: GpuRecord) -> tuple[int, str]:
    """Reported size of one device of the card, and its basis."""
    nominal_bytes = (record.vram_bytes or 0) // record.devices_per_board
    if record.vram_reported_bytes is not None:
        return record.vram_reported_bytes // record.devices_per_board, "the size that the driver reports"
    if record.compute_capability is None or record.vendor != "NVIDIA":
        return nominal_bytes, "the nominal size"
    return reported_bytes(nominal_bytes, record.memory_type, ecc=record.segment == "datacenter")


def _shared(record: GpuRecord, backend: Backend, idle: IdleMemory | None, memory_bytes: int | None) -> Capacity:
    ram_bytes = memory_bytes or record.vram_bytes
    if ram_bytes is None or record.memory_policy is None:
        raise InvalidRequest(
            f"{record.name} uses the machine's memory: state rig.host.ram_bytes", fields=("rig.host.ram_bytes",)
        )
    if idle is not None and ram_bytes == record.vram_bytes:
        return seen_capacity(idle.free_bytes, idle.total_bytes or ram_bytes, idle.source)
    basis = "stated memory" if memory_bytes else "the largest configuration sold; state rig.host.ram_bytes for another"
    if backend == "rpc":
        basis += "; on the machine that serves it"
    return unified_capacity(ram_bytes, record.memory_policy, basis)


def _largest_bytes(record: GpuRecord, memory_bytes: int | None) -> int | None:
    """Memory that one device can have at most; None where nobody knows."""
    if not record.unified_memory:
        return None if record.vram_bytes is None else record.vram_bytes // record.devices_per_board
    sold = max((record.vram_bytes or 0, *record.memory_options_bytes))
    if memory_bytes is not None and sold and memory_bytes > sold * RAM_TOLERANCE:
        raise Contradiction(
            f"{record.name} is sold with at most {sold} bytes of memory: {memory_bytes} were stated",
            fields=("rig.host.ram_bytes",),
        )
    return memory_bytes or sold or None
