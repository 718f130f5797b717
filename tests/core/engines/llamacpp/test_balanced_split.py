"""A split under which every card is filled alike."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from service.core.engines.llamacpp.balanced_split import RangeBytes, Room, balanced_slots


def sizes(layers: list[int]) -> RangeBytes:
    """Bytes of a range of slots, the same on every card."""
    return lambda _, first, end: sum(layers[first:end])


def rooms(*usable: int) -> list[Room]:
    return [Room(usable_bytes=size, taken_bytes=0) for size in usable]


def test_equal_cards_share_equally() -> None:
    """Forty slots of one size on two equal cards are twenty and twenty."""
    assert balanced_slots(rooms(100, 100), sizes([3] * 40), (0, 40)) == (20, 20)


def test_a_card_twice_as_large_takes_twice_as_much() -> None:
    """Cards are filled in proportion to their memory."""
    assert balanced_slots(rooms(200, 100), sizes([3] * 60), (0, 60)) == (40, 20)


def test_what_is_taken_counts() -> None:
    """A card whose memory is taken otherwise gets less."""
    with_buffers = [Room(usable_bytes=100, taken_bytes=50), Room(usable_bytes=100, taken_bytes=0)]
    found = balanced_slots(with_buffers, sizes([1] * 100), (0, 100))
    assert found == (25, 75)


def test_a_full_card_may_stay_empty() -> None:
    """A card without room gets no slot."""
    assert balanced_slots(rooms(0, 100), sizes([1] * 50), (0, 50)) == (0, 50)


def test_slots_on_the_host_are_left_out() -> None:
    """Only slots from the first offloaded one are divided."""
    assert balanced_slots(rooms(100, 100), sizes([1] * 40), (10, 40)) == (15, 15)


@given(st.lists(st.integers(1, 20), min_size=1, max_size=8), st.lists(st.integers(0, 60), min_size=1, max_size=3))
def test_a_split_is_found_whenever_there_is_one(layers: list[int], usable: list[int]) -> None:
    """Where any division in order fits the cards, one is found, and it fits."""
    found = balanced_slots(rooms(*usable), sizes(layers), (0, len(layers)))
    assert (found is not None) == any_division_fits(layers, usable)
    if found is not None:
        assert fits(layers, usable, found)


def any_division_fits(layers: list[int], usable: list[int]) -> bool:
    counts = product(range(len(layers) + 1), repeat=len(usable))
    return any(sum(division) == len(layers) and fits(layers, usable, division) for division in counts)


def fits(layers: list[int], usable: list[int], division: tuple[int, ...]) -> bool:
    position = 0
    for count, size in zip(division, usable, strict=True):
        if sum(layers[position : position + count]) > size:
            return False
        position += count
    return position == len(layers)
