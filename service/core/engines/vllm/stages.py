"""Pipeline stages: which blocks each holds."""

from collections.abc import Sequence
from itertools import accumulate


def even_partition(layers: int, stages: int) -> tuple[int, ...]:
    """Layers of each stage: equal shares, the rest one by one to the stages before the last, from the back.

    Source: get_pp_indices, distributed/utils.py:198-240 (vLLM 0.33.0).
    """
    share, rest = divmod(layers, stages)
    counts = [share] * stages
    for step in range(rest):
        counts[-(2 + step)] += 1
    return tuple(counts)


def stage_ranges(partition: Sequence[int]) -> tuple[range, ...]:
    """Blocks of each stage."""
    ends = list(accumulate(partition))
    return tuple(range(end - count, end) for end, count in zip(ends, partition, strict=True))
