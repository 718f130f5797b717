"""The fastest division of layers over cards in a given order."""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from service.core.engines.llamacpp.search.layer_split import Range, Stage, fastest_division
from service.core.engines.llamacpp.search.reach import Reach
from service.core.engines.llamacpp.slots import split_slots

SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=6)
CARDS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9), st.integers(0, 20)), min_size=1, max_size=3)


def before(values: Sequence[float]) -> list[float]:
    return [0.0, *accumulate(values)]


def stage(sizes: Sequence[int], usable: int, seconds: int, further: int) -> Stage:
    """A card with so much memory that takes so long per unit of size, and so long more where it is not the first."""
    sums = before(sizes)
    begins = [next(begin for begin in range(end + 1) if sums[end] - sums[begin] <= usable) for end in range(len(sums))]
    return Stage(
        seconds_before=[seconds * each for each in sums],
        reach=Reach(first=begins, further=begins),
        further_s=further,
        stage_before=sums,
    )


def all_ranges(slots: int, cards: int, first: int) -> Iterator[tuple[Range, ...]]:
    """All ways to give cards consecutive slots from `first` on."""
    if cards == 0:
        if first == slots:
            yield ()
        return
    for end in range(first, slots + 1):
        for rest in all_ranges(slots, cards - 1, end):
            yield ((first, end), *rest)


def seconds_of(
    sizes: Sequence[int], cards: Sequence[tuple[int, int, int]], ranges: Sequence[Range], host_s: float
) -> float:
    """Time of a division, infinite where a card is too small."""
    total, used = host_s, False
    for (usable, seconds, further), (first, end) in zip(cards, ranges, strict=True):
        held = sum(sizes[first:end])
        if held > usable:
            return inf
        if end > first:
            total += seconds * held + (further if used else 0)
            used = True
    return total


@given(SIZES, CARDS)
def test_no_division_in_order_is_faster(sizes: list[int], cards: list[tuple[int, int, int]]) -> None:
    """Of all consecutive ranges that fit, over any of the cards, none takes less time; none is found if none fits."""
    best = min(seconds_of(sizes, cards, each, 0.0) for each in all_ranges(len(sizes), len(cards), 0))
    found = fastest_division([stage(sizes, *card) for card in cards])
    if best == inf:
        assert found is None
        return
    assert found is not None
    assert found.seconds == best
    held = [slot for first, end in found.ranges for slot in range(first, end)]
    assert held == list(range(len(sizes)))
    placed = [each if each[1] > each[0] else (0, 0) for each in found.ranges]
    assert seconds_of(sizes, cards, placed, 0.0) == best


@given(SIZES, CARDS, st.integers(1, 30))
def test_the_host_takes_what_is_best_left_to_it(
    sizes: list[int], cards: list[tuple[int, int, int]], host: int
) -> None:  # fmt: skip
    """With a host that takes slots before the cards', the best number of them is found as well."""
    best = min(
        seconds_of(sizes, cards, each, host * sum(sizes[:left]))
        for left in range(len(sizes) + 1)
        for each in all_ranges(len(sizes), len(cards), left)
    )
    found = fastest_division([stage(sizes, *card) for card in cards], host_before=[host * s for s in before(sizes)])
    assert found is not None
    assert found.seconds == best


@given(SIZES, CARDS, st.integers(1, 40))
def test_a_bound_on_the_longest_stage_is_kept(
    sizes: list[int], cards: list[tuple[int, int, int]], longest: int
) -> None:  # fmt: skip
    """No card holds more than the bound, and no other division within it is faster."""
    within = [(min(usable, longest), seconds, further) for usable, seconds, further in cards]
    bounded = fastest_division([stage(sizes, *card) for card in cards], longest=longest)
    smaller = fastest_division([stage(sizes, *card) for card in within])
    assert (bounded and bounded.seconds) == (smaller and smaller.seconds)


def test_every_card_takes_part_where_that_is_asked() -> None:
    """A card that only costs time gets one slot, and no division is found for fewer slots than cards."""
    slow, fast = (100, 9, 5), (100, 1, 5)
    found = fastest_division([stage([1] * 6, *card) for card in (fast, slow)], all_cards=True)
    assert found is not None
    assert found.ranges == ((0, 5), (5, 6))
    assert fastest_division([stage([1], *card) for card in (fast, slow)], all_cards=True) is None


def test_the_fastest_memory_is_filled_first() -> None:
    """Beside a slower card of any size, the faster one takes all it has room for."""
    found = fastest_division([stage([1] * 80, 60, 2, 0), stage([1] * 80, 50, 1, 0)])
    assert found is not None
    assert found.ranges == ((0, 30), (30, 80))


@given(st.lists(st.integers(0, 70), min_size=1, max_size=8).filter(any), st.integers(0, 40))
def test_whole_shares_cut_exactly_where_they_say(counts: list[int], on_host: int) -> None:
    """Numbers of slots, given as shares, put as many slots on every device in llama.cpp's float32 arithmetic."""
    slots = split_slots(sum(counts) + on_host - 1, sum(counts), [float(count) for count in counts])
    ranges = [slots.range_of(device) for device in range(len(counts))]
    assert [end - first for first, end in ranges] == counts
