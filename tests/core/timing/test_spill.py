"""What lies beyond a card's memory is read over its link."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.memory import Need
from service.core.timing.spill import Spill, spill, spilled_bytes_per_s
from service.core.timing.work import Weights, Work
from tests.core.timing.machines import AMPERE, part, rates, work

ROOM = 10**10


def needs(*totals: int) -> list[Need]:
    """Needs of cards with 10 GB of room each, and of a host with enough."""
    return [*(Need(total_bytes=total, usable_bytes=ROOM) for total in totals), Need(total_bytes=1, usable_bytes=None)]


def spilt(asked: Work, *totals: int) -> Spill | None:
    """What spills of cards that need so much."""
    return spill(asked, rates(asked), needs(*totals))


def test_nothing_spills_that_fits() -> None:
    """With room for everything there is no answer."""
    assert spilt(work(part()), ROOM) is None


def test_what_lacks_is_read_over_the_link() -> None:
    """A card that reads all it holds reads what lacks at the link's rate: 11.3 GB/s on PCIe 4.0 x16."""
    asked = work(part(dense_bytes=11 * 10**9))
    found = spilt(asked, 11 * 10**9)
    assert found is not None
    assert found.spilled_bytes == 10**9
    rate = spilled_bytes_per_s(rates(asked).cards[0])
    assert rate == pytest.approx(11.3e9, rel=0.01)
    assert found.step_s == pytest.approx(1e9 / rate)


def test_a_measured_machine() -> None:
    """An RTX 3080 that lacks 0.44 to 0.94 GiB took 58 to 62 ms longer per step of 9 GB, within a factor of two."""
    size = 9 * 10**9
    asked = work(part(dense_bytes=size))
    steps = [
        spill(asked, rates(asked), [Need(total_bytes=size, usable_bytes=size - lack)])
        for lack in (472_000_000, 1_010_000_000)
    ]
    found_s = [each.step_s for each in steps if each is not None]
    assert found_s[0] < 0.060 < found_s[1]
    assert found_s[0] > 0.030
    assert found_s[1] < 0.120


def test_experts_that_are_not_used_are_not_read() -> None:
    """Of a mixture a step reads a part, and the same part of what lies outside."""
    mixture = Weights(used_fraction=1 / 16, dense_flops_per_byte=4.0, expert_flops_per_byte=4.0)
    sparse, dense = work(part(dense_bytes=0, expert_bytes=2 * ROOM), weights=mixture), work(part(dense_bytes=2 * ROOM))
    few, all_ = spilt(sparse, 2 * ROOM), spilt(dense, 2 * ROOM)
    assert few is not None
    assert all_ is not None
    assert few.step_s == pytest.approx(all_.step_s / 16)


def test_cards_wait_in_turn_or_for_the_slowest() -> None:
    """Two cards that lack the same cost twice as much one after the other as together."""
    serial, joint = work(part(), part()), work(part(), part(), arrangement="tensor")
    one, other = (spilt(asked, 2 * ROOM, 2 * ROOM) for asked in (serial, joint))
    assert one is not None
    assert other is not None
    assert one.step_s == pytest.approx(2 * other.step_s)


def test_memory_that_is_shared_anyway_does_not_spill() -> None:
    """Beyond it there is only a disk, which is not predicted."""
    assert spilt(work(part(replace(AMPERE, unified_memory=True))), 2 * ROOM) is None


@given(st.integers(1, 10**10), st.integers(1, 10**10))
def test_more_beyond_the_card_is_never_faster(one: int, other: int) -> None:
    """Every further byte adds its part."""
    asked = work(part(dense_bytes=10**10))
    less, more = (spilt(asked, ROOM + lack) for lack in sorted((one, other)))
    assert less is not None
    assert more is not None
    assert less.step_s <= more.step_s
    assert less.prompt_s <= more.prompt_s
