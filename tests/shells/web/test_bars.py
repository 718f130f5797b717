"""Bars are as long as what they stand for."""

import pytest

from service.core.units import GIB
from service.shells.web.bars import WIDTH, host_segments, memory_bars, step_segments


def device(total_gib: float, usable_gib: float, **parts_gib: float) -> dict[str, float]:
    names = ("weights", "kv", "compute", "overhead", "companion")
    parts = {f"{name}_bytes": parts_gib.get(name, 0) * GIB for name in names}
    return parts | {"total_bytes": total_gib * GIB, "usable_bytes": usable_gib * GIB}


def test_all_cards_share_one_scale() -> None:
    """The largest card fills the width, and a smaller one is that much shorter."""
    large, small = memory_bars([device(10, 32, weights=10), device(4, 16, weights=3, kv=1)])
    assert large.room == WIDTH
    assert small.room == WIDTH / 2
    assert [segment.width for segment in small.segments] == [pytest.approx(WIDTH * 3 / 32, abs=0.01), WIDTH / 32]


def test_parts_follow_each_other() -> None:
    """Each part begins where the one before it ends, and parts of nothing are left out."""
    (bar,) = memory_bars([device(10, 10, weights=5, compute=3, overhead=2)])
    assert [segment.part for segment in bar.segments] == ["weights", "compute", "overhead"]
    assert [segment.start for segment in bar.segments] == [0, WIDTH / 2, WIDTH * 0.8]
    assert bar.over is None


def test_what_a_card_lacks_is_marked_beyond_its_end() -> None:
    """The bar of a card that is too small goes on past the room it has."""
    (bar,) = memory_bars([device(20, 10, weights=20)])
    assert bar.room == WIDTH / 2
    assert bar.over == (WIDTH / 2, WIDTH / 2)


def test_a_total_beyond_its_parts_is_shown() -> None:
    """What an engine counts in the total and names nowhere is a part of its own."""
    (bar,) = memory_bars([device(10, 10, weights=6)])
    assert [(segment.part, segment.text) for segment in bar.segments] == [("weights", "6.00"), ("other", "4.00")]


def test_an_idle_host_has_no_parts() -> None:
    """Nothing in main memory is nothing to draw."""
    assert host_segments({"weights_bytes": 0, "kv_bytes": 0, "compute_bytes": 0, "total_bytes": 0}) == []


def test_steps_of_a_decode_step_fill_the_width() -> None:
    """Each step is as wide as its share of the time."""
    steps = step_segments([{"what": "card 0", "s": 0.03}, {"what": "card 1", "s": 0.01}])
    assert [step.width for step in steps] == [WIDTH * 0.75, WIDTH * 0.25]
    assert [step.text for step in steps] == ["30.0 ms", "10.0 ms"]
