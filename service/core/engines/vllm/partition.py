"""A partition into pipeline stages for cards of different sizes: the one that leaves the most KV blocks."""

from collections.abc import Callable

from service.core.engines.vllm.stages import even_partition

# more KV blocks than any card has
_MOST_BLOCKS = 1 << 40
# fewer blocks more than this are not worth a division by hand
_LEAST_GAIN = 1.1


def best_partition(
    layers: int, stages: int, blocks_of: Callable[[int, range], int], *, enough_blocks: int
) -> tuple[int, ...]:
    """Layers of each stage: vLLM's own division where that holds `enough_blocks`, else the one with the most blocks.

    blocks_of: KV blocks that a stage has with a range of layers, or less than none where its weights do not fit; they
    must not rise with more layers.
    """
    even = even_partition(layers, stages)
    least_even = _least(even, blocks_of)
    if least_even >= enough_blocks > 0 or stages == 1 or stages > layers:
        return even
    best, low, high = even, least_even + 1, _ceiling(layers, stages, blocks_of)
    while low <= high:
        target = (low + high) // 2
        found = _reaching(layers, stages, blocks_of, target)
        if found is None:
            high = target - 1
        else:
            best, low = found, _least(found, blocks_of) + 1
    gains = _least(best, blocks_of) > _LEAST_GAIN * least_even
    return best if gains or least_even < enough_blocks else even


def _least(partition: tuple[int, ...], blocks_of: Callable[[int, range], int]) -> int:
    start, least = 0, _MOST_BLOCKS
    for stage, count in enumerate(partition):
        least = min(least, blocks_of(stage, range(start, start + count)))
        start += count
    return least


def _ceiling(layers: int, stages: int, blocks_of: Callable[[int, range], int]) -> int:
    """No partition has more blocks than the best stage with a single layer."""
    last = layers - 1
    return max(blocks_of(stage, range(last, layers) if stage == stages - 1 else range(1)) for stage in range(stages))


def _reaching(layers: int, stages: int, blocks_of: Callable[[int, range], int], target: int) -> tuple[int, ...] | None:
    """A partition in which every stage has `target` blocks, each stage as long as it can be; None where none does."""
    start, counts = 0, []
    for stage in range(stages):
        rest = stages - 1 - stage
        count = layers - start - rest if rest == 0 else _longest(blocks_of, stage, start, layers - rest, target)
        if count < 1 or blocks_of(stage, range(start, start + count)) < target:
            return None
        counts.append(count)
        start += count
    return tuple(counts)


def _longest(blocks_of: Callable[[int, range], int], stage: int, start: int, most_end: int, target: int) -> int:
    """Most layers from `start` with which a stage has `target` blocks, 0 where one is too many."""
    low, high = 0, most_end - start
    while low < high:
        middle = (low + high + 1) // 2
        if blocks_of(stage, range(start, start + middle)) >= target:
            low = middle
        else:
            high = middle - 1
    return low
