"""Layer slots to devices."""

import math
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.engines.llamacpp.slots import CPU, resolve_n_gpu_layers, split_slots
from service.core.problems import Contradiction, InvalidRequest

WORKED_TABLE = [
    (80, "all", (1, 1), 0, (41, 39)),
    (80, "all", (24, 12), 0, (54, 26)),
    (80, "all", (1, 1, 1), 0, (27, 27, 26)),
    (80, "all", (24, 24, 12), 0, (33, 32, 15)),
    (80, 60, (1, 1), 21, (30, 29)),
    (80, "all", (10, 0, 10), 0, (41, 0, 39)),
    (61, "all", (7, 7), 0, (31, 30)),
    (32, "all", (1, 1), 0, (17, 15)),
    (36, "all", (1, 2, 3, 4), 0, (4, 8, 11, 13)),
    (56, "all", (0.18, 0.39), 0, (19, 37)),
    (101, "all", (0.18, 0.32, 0.58), 0, (18, 30, 53)),
]

shares = st.lists(st.one_of(st.integers(0, 100).map(float), st.floats(1e-3, 1e11)), min_size=1, max_size=6).filter(any)


def slot_by_slot(n_layer_all: int, n_gpu_layers: int, weights: Sequence[float]) -> list[int]:
    """The rule as llama.cpp states it, one slot after the other."""
    sums = list(accumulate((np.float32(weight) for weight in weights), lambda a, b: np.float32(a + b)))
    cuts = [np.float32(partial / sums[-1]) for partial in sums]
    offloaded = min(n_gpu_layers, n_layer_all + 1)
    start = n_layer_all + 1 - offloaded
    return [
        CPU
        if slot < start
        else next(device for device, cut in enumerate(cuts) if cut > np.float32(slot - start) / np.float32(offloaded))
        for slot in range(n_layer_all + 1)
    ]


@pytest.mark.parametrize(("n_layer_all", "n_gpu_layers", "weights", "on_cpu", "layers"), WORKED_TABLE)
def test_worked_examples(
    n_layer_all: int, n_gpu_layers: int, weights: tuple[float, ...], on_cpu: int, layers: tuple[int, ...]
) -> None:
    """The table of the domain's section 3 comes out, blocks counted without the output slot."""
    slots = split_slots(n_layer_all, resolve_n_gpu_layers(n_gpu_layers, n_layer_all), weights)
    held = [slots.range_of(device) for device in range(len(weights))]
    assert tuple(min(end, n_layer_all) - first for first, end in held) == layers
    first, end = slots.range_of(CPU)
    assert end - first == on_cpu
    assert slots.output_device == max(device for device, weight in enumerate(weights) if weight)


@given(n_layer_all=st.integers(1, 130), n_gpu_layers=st.integers(0, 140), weights=shares)
def test_runs_agree_with_the_rule_slot_by_slot(n_layer_all: int, n_gpu_layers: int, weights: list[float]) -> None:
    """Cut points found by arithmetic are those of the engine's loop over slots."""
    slots = split_slots(n_layer_all, n_gpu_layers, weights)
    assert [slots.device_of(slot) for slot in range(n_layer_all + 1)] == slot_by_slot(
        n_layer_all, n_gpu_layers, weights
    )


@given(n_layer_all=st.integers(1, 130), n_gpu_layers=st.integers(0, 140), weights=shares)
def test_every_slot_is_placed_once(n_layer_all: int, n_gpu_layers: int, weights: list[float]) -> None:
    """Runs follow each other without gap or overlap from slot 0 to La."""
    slots = split_slots(n_layer_all, n_gpu_layers, weights)
    assert sum(run.end - run.first for run in slots.runs) == n_layer_all + 1
    assert [run.first for run in slots.runs] == [0, *(run.end for run in slots.runs)][:-1]


def test_offload_counts_from_the_output_layer() -> None:
    """One slot is the output layer alone; La slots leave block 0 on the host."""
    assert split_slots(32, 1, (1.0,)).runs[0].end == 32
    assert split_slots(32, 32, (1.0,)).runs[0].end == 1
    assert split_slots(32, 0, (1.0,)).output_device == CPU


def test_without_devices_everything_stays_on_the_host() -> None:
    """No cards means a plan on the host alone."""
    slots = split_slots(32, 33, ())
    assert slots.range_of(CPU) == (0, 33)
    assert not slots.fully_offloaded


@pytest.mark.parametrize("asked", ["all", -1, -2, 33, 99, 999])
def test_all_negative_and_large_counts_mean_every_slot(asked: int) -> None:
    """Whatever says "everything" gives La + 1."""
    assert resolve_n_gpu_layers(asked, 32) == 33


@pytest.mark.parametrize("weight", [math.nan, math.inf, -math.inf, -1.0, 1e39, 1e-46])
def test_shares_float32_cannot_split_by_are_refused(weight: float) -> None:
    """A share that is no number, negative or out of float32's range is a problem, not a layout."""
    with pytest.raises(InvalidRequest, match="tensor_split value 1"):
        split_slots(32, 33, (1.0, weight))


@pytest.mark.parametrize("weights", [(0.0, 0.0), (3e38, 3e38)])
def test_shares_without_a_usable_sum_are_refused(weights: tuple[float, ...]) -> None:
    """Nothing to split by is a contradiction."""
    with pytest.raises(Contradiction, match="add up to nothing"):
        split_slots(32, 33, weights)
