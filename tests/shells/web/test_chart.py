"""The chart lies where its numbers say."""

import re
from itertools import pairwise

import pytest

from service.contract.validation import validate_request
from service.core.units import GIB
from service.planning.context_curve import ContextCurve, context_curve
from service.shells.web.axis import Axis, even_ticks, octave_ticks
from service.shells.web.chart import LEFT, RIGHT, chart_of, sentence_of
from tests.planner import builtin_planner

WIDTH = 760.0


def curve_of(*gpus: str, context_tokens: int | None = None) -> ContextCurve:
    request = {"model": "qwen3-32b:Q4_K_M", "rig": {"gpus": list(gpus)}, "workload": {"context_tokens": context_tokens}}
    return context_curve(builtin_planner().plan, validate_request(request))


def points(path: str) -> list[tuple[float, float]]:
    """The corners of an outline."""
    return [(float(x), float(y)) for x, y in re.findall(r"(-?[\d.]+) (-?[\d.]+)", path)]


def test_a_line_has_a_point_for_each_plan() -> None:
    """Speed goes from the left edge to the right one, and falls where plans are slower."""
    curve = curve_of("rtx-3090")
    line = points(chart_of(curve, None, WIDTH).line)
    assert len(line) == len(curve.plans)
    assert (line[0][0], line[-1][0]) == (LEFT, WIDTH - RIGHT)
    assert [y for _, y in line] == sorted(y for _, y in line)


def test_areas_are_as_high_as_what_they_stand_for() -> None:
    """The stack of areas ends at the memory of cards and host together."""
    curve = curve_of("rtx-3090")
    chart = chart_of(curve, None, WIDTH)
    values = [(place, float(label)) for place, label in chart.memory.ticks]
    (low_place, low), (high_place, high) = values[0], values[-1]
    (_, last) = curve.plans[-1]
    held_gib = (last.devices[0].total_bytes + last.host.total_bytes) / GIB
    top = points(chart.areas[-1][1])[len(curve.plans) - 1]
    assert top[1] == pytest.approx(low_place + (held_gib - low) / (high - low) * (high_place - low_place), abs=0.2)


def test_the_cliff_and_the_context_asked_for_are_marked() -> None:
    """The mark of the cliff lies between what fits and what does not."""
    curve = curve_of("rtx-3090", context_tokens=4096)
    chart = chart_of(curve, 4096, WIDTH)
    assert chart.asked in points(chart.line)
    assert chart.beyond is not None
    assert chart.beyond in [x for x, _ in points(chart.line)]
    assert f"{curve.cliff_tokens:,}" in chart.cliff_label
    assert f"{curve.cliff_tokens:,} tokens fit on the cards" in sentence_of(curve)


def test_a_host_alone_has_no_room_on_cards() -> None:
    """Without cards there is no line of what they hold, and no cliff."""
    chart = chart_of(curve_of(), None, WIDTH)
    assert (chart.room, chart.beyond) == (None, None)
    assert [part for part, _ in chart.areas] == ["host"]


@pytest.mark.parametrize("most", [0.0, 0.04, 3.1, 47.0, 60.0, 1834.0])
def test_ticks_are_round_and_enclose_the_values(most: float) -> None:
    """Axes begin at nothing, go on in equal steps and end at a value that is not below the largest."""
    ticks = even_ticks(most, 3)
    assert ticks[0] == 0
    assert ticks[-1] >= most
    assert 2 <= len(ticks) <= 6
    assert [later - sooner for sooner, later in pairwise(ticks)] == [pytest.approx(ticks[1])] * (len(ticks) - 1)


def test_octaves_thin_out_where_there_is_no_room() -> None:
    """Powers of two are written as far as they have room, the largest always."""
    assert octave_ticks(2048, 131072, 12) == [2048, 4096, 8192, 16384, 32768, 65536, 131072]
    assert octave_ticks(2048, 131072, 4) == [2048, 8192, 32768, 131072]
    assert octave_ticks(3000, 3500, 4) == []


def test_an_octave_is_always_as_wide() -> None:
    """On an axis by octaves doubling a value moves it equally far."""
    axis = Axis(first=1024, last=16384, start=0, end=400, octaves=True)
    assert [axis.place(value) for value in (1024, 2048, 4096, 16384)] == [0, 100, 200, 400]
