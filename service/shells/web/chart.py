"""The chart of memory and decode speed over the context, as coordinates of a drawing."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from service.contract.plan import Plan
from service.core.units import GIB
from service.planning.context_curve import ContextCurve
from service.shells.web.answer import VERDICTS
from service.shells.web.axis import Axis, even_ticks, octave_ticks
from service.shells.web.bars import PARTS
from service.shells.web.formats import number, rate, whole

Point: TypeAlias = tuple[float, float]
Ticks: TypeAlias = Sequence[tuple[float, str]]

LEFT, RIGHT, TOP = 46.0, 14.0, 20.0
MEMORY_HEIGHT, SPEED_HEIGHT, GAP, FOOT = 130.0, 110.0, 30.0, 34.0
_WIDTHS: Final = {"wide": 760.0, "narrow": 330.0}
_HOST: Final = ("host", "Main memory")
# what the cards hold, from the bottom up, and what lies in main memory above it
_STACKED: Final = (*(part for _, part, _ in PARTS), "host")


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One of the two drawings: its title, where it begins and ends, and the values beside it."""

    title: str
    top: float
    bottom: float
    ticks: Ticks


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Everything that is drawn, in units of a drawing `width` wide.

    areas: class of the colour and outline, the lowest first. room: how high the cards' memory reaches. beyond: from
    where the answer no longer fits the cards. asked: where the question's own context lies on the line of speed.
    """

    width: float
    height: float
    memory: Panel
    speed: Panel
    context_ticks: Ticks
    areas: Sequence[tuple[str, str]]
    room: float | None
    band: str
    line: str
    beyond: float | None
    cliff_label: str
    asked: Point | None


def chart_of(curve: ContextCurve, asked_tokens: int | None, width: float) -> Chart:
    """Draw a curve; it has at least two plans."""
    contexts = [tokens for tokens, _ in curve.plans]
    across = Axis(first=contexts[0], last=contexts[-1], start=LEFT, end=width - RIGHT, octaves=True)
    memory, memory_axis = _panel("Memory, GiB", TOP, MEMORY_HEIGHT, _most_gib(curve))
    speed, speed_axis = _panel("Decode, tokens per second", memory.bottom + GAP, SPEED_HEIGHT, _most_rate(curve))
    room_gib = sum(device.usable_bytes for device in curve.plans[0][1].devices) / GIB
    return Chart(
        width=width,
        height=speed.bottom + FOOT,
        memory=memory,
        speed=speed,
        context_ticks=_context_ticks(across, int(width // 60)),
        areas=_areas(curve, across, memory_axis),
        room=memory_axis.place(room_gib) if room_gib else None,
        band=_band(curve, across, speed_axis),
        line=_line([(across.place(tokens), speed_axis.place(_rate(plan, "mid"))) for tokens, plan in _fast(curve)]),
        beyond=None if curve.cliff_tokens is None else across.place(curve.cliff_tokens),
        cliff_label="" if curve.cliff_tokens is None else f"{whole(curve.cliff_tokens)} fit",
        asked=next(
            (
                (across.place(tokens), speed_axis.place(_rate(plan, "mid")))
                for tokens, plan in _fast(curve)
                if tokens == asked_tokens
            ),
            None,
        ),
    )


def chart_values(curve: ContextCurve, asked_tokens: int | None) -> dict[str, Any]:
    """What the chart's template needs: the drawing for wide and for narrow pages, and the same in words."""
    charts = [(name, chart_of(curve, asked_tokens, width)) for name, width in _WIDTHS.items()]
    drawn = {part for part, _ in charts[0][1].areas}
    legend = [(part, label) for part, label in (*((part, label) for _, part, label in PARTS), _HOST) if part in drawn]
    return {"charts": charts, "legend": legend, "curve": curve, "sentence": sentence_of(curve), "verdicts": VERDICTS}


def sentence_of(curve: ContextCurve) -> str:
    """What the chart shows, in words."""
    parts = [*_rates_in_words(curve), *_cliff_in_words(curve)]
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _rates_in_words(curve: ContextCurve) -> Iterator[str]:
    fast = _fast(curve)
    if len(fast) > 1:
        ends = (
            f"{rate(_rate(plan, 'mid'))} tokens per second at {whole(tokens)}" for tokens, plan in (fast[0], fast[-1])
        )
        yield f"decode goes from {' to '.join(ends)} tokens of context"


def _cliff_in_words(curve: ContextCurve) -> Iterator[str]:
    if curve.cliff_tokens is None:
        return
    yield f"up to {whole(curve.cliff_tokens)} tokens fit on the cards"
    beyond = next((plan for tokens, plan in curve.plans if tokens > (curve.cliff_tokens or 0)), None)
    if beyond is not None:
        yield "beyond that it does not fit" if beyond.verdict == "does_not_fit" else "beyond that the host holds a part"


def _panel(title: str, top: float, height: float, most: float) -> tuple[Panel, Axis]:
    values = even_ticks(most, 3)
    axis = Axis(first=0, last=values[-1], start=top + height, end=top)
    ticks = [(axis.place(value), number(round(value, 6))) for value in values]
    return Panel(title=title, top=top, bottom=top + height, ticks=ticks), axis


def _context_ticks(across: Axis, most: int) -> Ticks:
    return [(across.place(tokens), _kibi(tokens)) for tokens in octave_ticks(across.first, across.last, most)]


def _areas(curve: ContextCurve, across: Axis, up: Axis) -> list[tuple[str, str]]:
    """Stacked areas of what lies on the cards, part by part, and of main memory on top."""
    below = [0.0] * len(curve.plans)
    areas = []
    for part in _STACKED:
        above = [under + _amount_gib(plan, part) for under, (_, plan) in zip(below, curve.plans, strict=True)]
        if above != below:
            areas.append((part, _between(curve, across, up, above, below)))
        below = above
    return areas


def _band(curve: ContextCurve, across: Axis, up: Axis) -> str:
    fast = ContextCurve(plans=tuple(_fast(curve)), cliff_tokens=curve.cliff_tokens)
    highs, lows = ([_rate(plan, end) for _, plan in fast.plans] for end in ("high", "low"))
    return _between(fast, across, up, highs, lows) if fast.plans else ""


def _between(curve: ContextCurve, across: Axis, up: Axis, above: Sequence[float], below: Sequence[float]) -> str:
    """Outline of the area between two lines."""
    places = [across.place(tokens) for tokens, _ in curve.plans]
    upper = list(zip(places, map(up.place, above), strict=True))
    lower = list(zip(places, map(up.place, below), strict=True))
    return _line([*upper, *reversed(lower)]) + "z"


def _line(points: Sequence[Point]) -> str:
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in points) if points else ""


def _fast(curve: ContextCurve) -> list[tuple[int, Plan]]:
    """The plans that run and whose speed is known."""
    return [(tokens, plan) for tokens, plan in curve.plans if plan.speed and plan.verdict != "does_not_fit"]


def _rate(plan: Plan, end: str) -> float:
    return float(getattr(plan.speed.decode_tokens_per_s, end)) if plan.speed else 0.0


def _amount_gib(plan: Plan, part: str) -> float:
    if part == "host":
        return plan.host.total_bytes / GIB
    amount_bytes: int = sum(getattr(device, f"{part}_bytes") for device in plan.devices)
    return amount_bytes / GIB


def _most(curve: ContextCurve, value: Callable[[Plan], float]) -> float:
    return max(value(plan) for _, plan in curve.plans)


def _most_gib(curve: ContextCurve) -> float:
    held = _most(curve, lambda plan: sum(_amount_gib(plan, part) for part in _STACKED))
    return max(held, sum(device.usable_bytes for device in curve.plans[0][1].devices) / GIB)


def _most_rate(curve: ContextCurve) -> float:
    return max((_rate(plan, "high") for _, plan in _fast(curve)), default=0.0)


def _kibi(tokens: int) -> str:
    return f"{tokens // 1024}k" if tokens >= 1024 else str(tokens)
