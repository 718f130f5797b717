"""What cards hold of a model before there is a context, and the cards it is not spread over.

Source: a device holds consecutive slots, src/llama-model.cpp:1556-1614 (llama.cpp in llama-cpp-python 0.3.36).
"""

from collections.abc import Sequence
from typing import NamedTuple

from service.core.engines.llamacpp.devices import Device
from service.core.engines.llamacpp.slots import CPU, SlotMap
from service.core.engines.llamacpp.weights import NO_WEIGHTS, Weights
from service.core.types import Backend


class HeldByDevice(NamedTuple):
    """What a card has before there is a context: the first fields of its DevicePlacement, where they are explained."""

    name: str
    backend: Backend
    used: bool
    first_slot: int
    end_slot: int
    layers: tuple[tuple[int, int], ...]
    holds_output: bool
    weights: Weights


def held_by(card: Device, slots: SlotMap, device: int, n_layer_all: int, weights: Weights) -> HeldByDevice:
    """What a used card has; device: as which it is counted in `slots`."""
    first, end = slots.range_of(device)
    layers_end = min(end, n_layer_all)
    layers = ((first, layers_end),) if first < layers_end else ()
    return HeldByDevice(
        card.name, card.backend, True, first, end, layers, first < end == slots.n_slots, weights
    )  # fmt: skip


def unused(card: Device) -> HeldByDevice:
    """A card that nothing lies on."""
    return HeldByDevice(
        name=card.name,
        backend=card.backend,
        used=False,
        first_slot=0,
        end_slot=0,
        layers=(),
        holds_output=False,
        weights=NO_WEIGHTS,
    )


def blocks_of(
    slots: SlotMap, backends: Sequence[Backend], n_layer_all: int
) -> tuple[tuple[int, Backend, int, int], ...]:  # fmt: skip
    """Blocks of every device that holds slots, as the device, its backend, the first block and the end."""
    return tuple(
        [
            (run.device, backends[run.device], min(run.first, n_layer_all), min(run.end, n_layer_all))
            for run in slots.runs
            if run.device != CPU
        ]
    )


def by_position(slots: SlotMap, order: Sequence[int]) -> SlotMap:
    """The same slots with devices counted by their position in the rig."""
    if all(position == index for index, position in enumerate(order)):
        return slots
    runs = tuple([run._replace(device=order[run.device]) if run.device != CPU else run for run in slots.runs])
    return SlotMap(runs=runs, n_slots=slots.n_slots)
