"""One graph for every context length."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.engines.llamacpp.buffer_types import HOST_RULES, BufferRules, buffer_rules
from service.core.engines.llamacpp.compute.footprint import (
    CELLS_PER_UNIT,
    SYMBOLS,
    Footprint,
    NotAffineError,
    pieces_of,
    split_size,
)
from service.core.units import GIB

COUNTS = st.integers(1, 2**24).map(lambda units: units * CELLS_PER_UNIT)


def footprint_of(rules: BufferRules, events: list[int], sizes: list[int], remains: dict[int, int]) -> Footprint:
    """The buffer of memory events."""
    return Footprint(rules, pieces_of(rules, events, sizes, remains))


@given(
    constant=st.integers(-(2**50), 2**50),
    factors=st.dictionaries(st.sampled_from(sorted(SYMBOLS)), st.integers(1, 2**40), min_size=1, max_size=3),
)
def test_symbolic_sizes_show_what_they_are_made_of(constant: int, factors: dict[str, int]) -> None:
    """A constant and so many bytes per cell of each kind, told apart exactly; a gap at the end is a negative one."""
    size = constant + sum(factor * SYMBOLS[kind] for kind, factor in factors.items())
    found_constant, terms = split_size(size)
    assert found_constant == constant
    assert dict(terms) == {kind: factor * CELLS_PER_UNIT for kind, factor in factors.items()}


def test_sizes_per_64_cells_are_told_as_well() -> None:
    """Notes that a backend keeps for 64 cells at a time are whole numbers of units."""
    assert split_size(3 * SYMBOLS["base"] // CELLS_PER_UNIT) == (0, (("base", 3),))


@pytest.mark.parametrize(
    "kinds", [("base", "base"), ("base", "swa"), ("swa", "swa"), ("base", "indexer"), ("csa", "hca")]
)
@pytest.mark.parametrize("factor", [1, 4, 2**20, 2**40])
def test_products_of_counts_are_refused(kinds: tuple[str, str], factor: int) -> None:
    """A size that grows with the square of the context has no single graph."""
    first, second = kinds
    with pytest.raises(NotAffineError):
        split_size(factor * SYMBOLS[first] * SYMBOLS[second])


@given(cells=COUNTS)
def test_buffers_are_recomputed_for_each_length(cells: int) -> None:
    """A mask and a score of the context's length, of which one is given back in between."""
    mask, score = 2 * SYMBOLS["base"], 1000 + 4 * SYMBOLS["base"]
    footprint = footprint_of(HOST_RULES, [0, 1, ~0, 2], [mask, score, 1500], {})
    behind = (2 * cells + 31) // 32 * 32
    end = behind + (1000 + 4 * cells + 31) // 32 * 32
    assert footprint.bytes_for({"base": cells}) == (end if behind >= 1504 else end + 1504)


def test_pieces_are_aligned_as_the_backend_wants() -> None:
    """CUDA rounds each piece up to 128 bytes, the host to 32."""
    events, sizes = [0, 1], [100, 100]
    assert footprint_of(buffer_rules("cuda"), events, sizes, {}).bytes_for({}) == 256
    assert footprint_of(HOST_RULES, events, sizes, {}).bytes_for({}) == 256
    assert footprint_of(HOST_RULES, events, [65, 1], {}).bytes_for({}) == 128
    assert footprint_of(buffer_rules("cuda"), events, [65, 1], {}).bytes_for({}) == 256


def test_an_empty_piece_may_be_given_back_behind_what_is_free() -> None:
    """It lies where the buffer ended when it was taken, which is free again when it is given back."""
    assert footprint_of(HOST_RULES, [0, 1, ~0, ~1, 2], [32, 0, 64], {}).bytes_for({}) == 64


def test_the_end_of_a_piece_can_be_given_back() -> None:
    """What remains keeps its address, and what follows fits behind it."""
    footprint = footprint_of(HOST_RULES, [0, 1, 2, ~1], [1024, 256, 768], {1: 0})
    assert footprint.bytes_for({}) == 1024


def test_long_buffers_of_vulkan_are_several() -> None:
    """What does not fit into the first GiB begins another; the first is used again once it is free."""
    half, whole = GIB // 2, GIB
    assert footprint_of(buffer_rules("vulkan"), [0, 1, ~0, 2], [half, half + 32, whole], {}).bytes_for({}) == (
        whole + half + 32
    )
