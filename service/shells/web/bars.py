"""Stacked bars: what takes how much of a card, and of a decode step."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

from service.shells.web.formats import duration, gib

# the width of a bar in the units of its drawing
WIDTH: Final = 1000.0
# field of a device, class of its colour, name
PARTS: Final = (
    ("weights_bytes", "weights", "Weights"),
    ("kv_bytes", "kv", "KV cache"),
    ("compute_bytes", "compute", "Compute"),
    ("overhead_bytes", "overhead", "Overhead"),
    ("companion_bytes", "companion", "Draft, projector"),
)
_OTHER: Final = ("other", "Other")
# colours of the steps of a decode step, in turn
STEP_COLOURS: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One part of a bar: where it begins and how wide it is in units of the drawing, and what it stands for."""

    part: str
    label: str
    value: float
    text: str
    start: float
    width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A bar of segments; room: how far the card reaches, over: where it is exceeded and by how much of the drawing."""

    segments: Sequence[Segment]
    room: float
    over: tuple[float, float] | None = None


def memory_bars(devices: Sequence[Mapping[str, Any]]) -> list[Bar]:
    """One bar for each card, all on one scale."""
    scale = max((max(device["total_bytes"], device["usable_bytes"]) for device in devices), default=0) or 1
    return [_memory_bar(device, WIDTH / scale) for device in devices]


def host_segments(host: Mapping[str, Any]) -> list[Segment]:
    """The parts of main memory, as a bar that they fill."""
    return list(_segments(_parts(host), WIDTH / (host["total_bytes"] or 1)))


def step_segments(steps: Sequence[Mapping[str, Any]]) -> list[Segment]:
    """The parts of a decode step, as a bar that they fill."""
    total_s = sum(step["s"] for step in steps) or 1
    parts = [
        (f"step-{index % STEP_COLOURS}", step["what"], step["s"], duration(step["s"]))
        for index, step in enumerate(steps)
    ]
    return list(_segments(parts, WIDTH / total_s))


def legend(plan: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The colours that the plan's bars use, with what they stand for."""
    places = [*plan["devices"], plan["host"]]
    used = {part for place in places for part, *_ in _parts(place)}
    return [(part, label) for part, label in ((*((part, label) for _, part, label in PARTS), _OTHER)) if part in used]


def _memory_bar(device: Mapping[str, Any], scale: float) -> Bar:
    room, total = device["usable_bytes"] * scale, device["total_bytes"] * scale
    return Bar(
        segments=list(_segments(_parts(device), scale)),
        room=room,
        over=(room, total - room) if total > room else None,
    )


def _parts(place: Mapping[str, Any]) -> list[tuple[str, str, float, str]]:
    """What takes memory there, with what the total has beyond the parts that are named."""
    found = [(part, label, place.get(field, 0)) for field, part, label in PARTS]
    rest = place["total_bytes"] - sum(amount for *_, amount in found)
    return [(part, label, amount, gib(amount)) for part, label, amount in [*found, (*_OTHER, rest)] if amount > 0]


def _segments(parts: Sequence[tuple[str, str, float, str]], scale: float) -> Iterator[Segment]:
    ends = accumulate((value * scale for _, _, value, _ in parts), initial=0.0)
    for (part, label, value, text), start in zip(parts, ends, strict=False):
        yield Segment(
            part=part, label=label, value=value, text=text, start=round(start, 2), width=round(value * scale, 2)
        )
