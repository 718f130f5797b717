"""Layers are shared out over pipeline stages as vLLM does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.engines.vllm.stages import even_partition, stage_ranges


@pytest.mark.parametrize(
    ("layers", "stages", "partition"),
    [
        (30, 4, (7, 8, 8, 7)),
        (61, 2, (31, 30)),
        (80, 3, (27, 27, 26)),
        (31, 4, (8, 8, 8, 7)),
        (10, 3, (3, 4, 3)),
        (64, 1, (64,)),
        (64, 4, (16, 16, 16, 16)),
    ],
)
def test_the_rest_goes_to_the_stages_before_the_last(layers: int, stages: int, partition: tuple[int, ...]) -> None:
    """The examples of vLLM's own rule."""
    assert even_partition(layers, stages) == partition


@given(st.integers(1, 200), st.integers(1, 16))
def test_every_layer_is_in_one_stage(layers: int, stages: int) -> None:
    """Counts add up, differ by one at most, and ranges follow each other."""
    partition = even_partition(layers, stages)
    assert sum(partition) == layers
    assert max(partition) - min(partition) <= 1
    assert [block for held in stage_ranges(partition) for block in held] == list(range(layers))
