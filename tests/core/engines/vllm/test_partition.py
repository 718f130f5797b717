"""The search for a partition finds what enumeration finds."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from service.core.engines.vllm.partition import best_partition
from service.core.engines.vllm.stages import even_partition

SIZES = st.lists(st.integers(40, 4000), min_size=2, max_size=4)


def blocks(sizes: list[int], stage: int, held: range, layers: int) -> int:
    """KV blocks of a stage whose layers weigh 20 each, the first 30 and the last 50 more, and whose blocks cost 1."""
    extra = (30 if held.start == 0 else 0) + (50 if held.stop == layers else 0)
    return max(0, sizes[stage] - 20 * len(held) - extra) // len(held)


def every_partition(layers: int, stages: int) -> list[tuple[int, ...]]:
    """All ways to cut layers into stages."""
    cuts = combinations(range(1, layers), stages - 1)
    return [tuple(b - a for a, b in zip((0, *cut), (*cut, layers), strict=True)) for cut in cuts]


def least(partition: tuple[int, ...], sizes: list[int], layers: int) -> int:
    """Blocks of the stage that has the fewest."""
    start, found = 0, []
    for stage, count in enumerate(partition):
        found.append(blocks(sizes, stage, range(start, start + count), layers))
        start += count
    return min(found)


@given(SIZES, st.integers(5, 14))
def test_no_partition_has_many_more_blocks(sizes: list[int], layers: int) -> None:
    """What is chosen has the most blocks, or is vLLM's own and no other has a tenth more."""
    chosen = best_partition(layers, len(sizes), lambda stage, held: blocks(sizes, stage, held, layers), enough_blocks=0)
    most = max(least(each, sizes, layers) for each in every_partition(layers, len(sizes)))
    assert sum(chosen) == layers
    if chosen == even_partition(layers, len(sizes)):
        assert most <= 1.1 * least(chosen, sizes, layers)
    else:
        assert least(chosen, sizes, layers) == most


@given(SIZES, st.integers(5, 14), st.integers(1, 100))
def test_what_is_asked_for_is_held_where_any_partition_holds_it(sizes: list[int], layers: int, enough: int) -> None:
    """With a number of blocks to reach, a partition that reaches it is found, vLLM's own first."""
    chosen = best_partition(
        layers, len(sizes), lambda stage, held: blocks(sizes, stage, held, layers), enough_blocks=enough
    )
    if any(least(each, sizes, layers) >= enough for each in every_partition(layers, len(sizes))):
        assert least(chosen, sizes, layers) >= enough
    if least(even_partition(layers, len(sizes)), sizes, layers) >= enough:
        assert chosen == even_partition(layers, len(sizes))
