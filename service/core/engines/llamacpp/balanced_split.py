"""A tensor split under which every card has the same share of its memory filled."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

# 2^-16 of a card's memory is less than any layer
FILL_STEPS: Final = 16

RangeBytes = Callable[[int, int, int], int]
"""Bytes of weights and KV that a device needs for slots first..end-1: (device, first, end); grows with the range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What a device can take and what is taken already, whatever slots it holds."""

    usable_bytes: int
    taken_bytes: int


def holds_all(rooms: Sequence[Room], range_bytes: RangeBytes, slots: tuple[int, int]) -> bool:
    """Whether the devices hold the slots from the first of `slots` up to the second, each as many as it can."""
    return _fill(rooms, range_bytes, slots, 1.0) is not None


def balanced_slots(
    rooms: Sequence[Room], range_bytes: RangeBytes, slots: tuple[int, int]
) -> tuple[int, ...] | None:  # fmt: skip
    """Slots per device, in order, for the lowest common fill; None where even full cards do not hold all of `slots`.

    Filling each device as far as it goes before the next one leaves the fewest slots over, so that the lowest fill
    at which nothing is left over is found by halving.
    """
    best = _fill(rooms, range_bytes, slots, 1.0)
    if best is None:
        return None
    low, high = 0.0, 1.0
    for _ in range(FILL_STEPS):
        middle = (low + high) / 2
        found = _fill(rooms, range_bytes, slots, middle)
        if found is None:
            low = middle
        else:
            best, high = found, middle
    return best


def _fill(
    rooms: Sequence[Room], range_bytes: RangeBytes, slots: tuple[int, int], share: float
) -> tuple[int, ...] | None:
    """Slots per device where each may be filled to `share` of its memory; None where slots are left over."""
    counts = []
    position, end_slot = slots
    for device, room in enumerate(rooms):
        limit = int(room.usable_bytes * share) - room.taken_bytes
        low, high = position, end_slot
        while low < high:
            middle = (low + high + 1) // 2
            if range_bytes(device, position, middle) <= limit:
                low = middle
            else:
                high = middle - 1
        counts.append(low - position)
        position = low
    return tuple(counts) if position == end_slot else None
