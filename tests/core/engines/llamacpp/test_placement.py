"""Where every byte goes: the parts put together."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.engines.llamacpp.placement import Placement, place, unpipelined
from service.core.engines.llamacpp.placement_inputs import placement_inputs
from service.core.engines.llamacpp.settings import LlamaCppSettings, OverrideTensor
from service.core.engines.llamacpp.slots import CPU
from service.core.types import Gpu, Workload
from tests.golden_rows import PLACEMENT_FILES, GoldenRow, golden_rows
from tests.models import load_model
from tests.rigs import gpu, rig, rpc_rig

LLAMA = "llama-3.2-1b:Q4_K_M"
LAYERS = LlamaCppSettings(split_mode="layer", n_gpu_layers="all")
WORKLOAD = Workload(context_tokens=8192)


def placed(*cards: Gpu, **settings: Any) -> Placement:
    """A placement of a small model, by layer and in full unless `settings` say otherwise."""
    return place(load_model(LLAMA), rig(*cards), replace(LAYERS, **settings), WORKLOAD)


def figures(row: GoldenRow) -> tuple[object, ...]:
    """Weights, caches and pipeline parallelism of a golden row, as planned."""
    workload = Workload(context_tokens=row.config["ctx"], parallel=row.config.get("n_parallel", 1))
    plan = placement_inputs(row.model, rpc_rig(row.n_devices), row.settings(), workload)
    weights, caches = plan.loaded.weights, plan.caches
    return (
        [device.weights_bytes for device in weights.devices],
        list(caches.devices),
        caches.host,
        plan.loaded.pipelines,
    )


def test_listed_cards_share_the_model_in_their_order() -> None:
    """A card that is not listed holds nothing, the last one listed has the output, and shares count along the list."""
    placement = placed(gpu(), gpu(gib=12), gpu(), devices=(2, 0), tensor_split=(3.0, 14.0))
    assert placement.device_order == (2, 0)
    assert [device.layers for device in placement.devices] == [((3, 16),), (), ((0, 3),)]
    assert [device.holds_output for device in placement.devices] == [True, False, False]
    assert placement.devices[1].compute_bytes == 0
    assert placement.slots.range_of(2) == (0, 3)


@pytest.mark.parametrize("file", PLACEMENT_FILES)
def test_every_golden_row_is_placed_as_llamacpp_places_it(file: str) -> None:
    """From a rig and a request alone: weights and caches of every device, host caches, pipeline parallelism."""
    rows = [row for row in golden_rows(file) if row.has_header]
    wrong = [
        str(row)
        for row in rows
        if figures(row)
        != (
            [device["model_bytes"] for device in row.observed["devices"]],
            [device["context_bytes"] for device in row.observed["devices"]],
            row.observed["host"]["context_bytes"],
            row.observed["pipeline_parallel"],
        )
    ]
    assert len(rows) > 150
    assert wrong == []


def test_a_rig_without_cards_is_placed_on_the_host() -> None:
    """No cards: everything, output and caches included, is the host's."""
    placement = placed()
    assert placement.devices == ()
    assert placement.slots.range_of(CPU) == (0, 17)
    assert placement.host.weights_bytes > 0
    assert placement.host.kv_bytes == 268435456
    assert not placement.pipeline_parallel


def test_devices_are_listed_as_the_rig_lists_them() -> None:
    """A server named second is llama.cpp's first device and the plan's second."""
    placement = placed(gpu("cuda"), gpu("rpc"))
    assert [device.name for device in placement.devices] == ["CUDA0", "RPC0"]
    assert placement.device_order == (1, 0)
    assert placement.devices[1].layers == ((0, 9),)
    assert placement.devices[0].layers == ((9, 16),)
    assert placement.devices[0].holds_output
    assert placement.slots.range_of(1) == (0, 9)


def test_a_card_llamacpp_leaves_out_holds_nothing() -> None:
    """An integrated GPU beside a card is listed as unused."""
    placement = placed(gpu("vulkan", integrated=True), gpu("cuda"))
    assert [(device.used, device.total_bytes > 0) for device in placement.devices] == [(False, False), (True, True)]


def test_free_memory_splits_where_no_shares_are_given() -> None:
    """24 and 12 GiB free put two thirds of the slots on the first card; shares of zero mean the same."""
    by_memory = placed(gpu("cuda", 24), gpu("cuda", 12))
    assert [device.layers for device in by_memory.devices] == [((0, 12),), ((12, 16),)]
    assert placed(gpu("cuda", 24), gpu("cuda", 12), tensor_split=(0.0, 0.0)) == by_memory


@pytest.mark.parametrize(
    "change",
    [
        {"n_gpu_layers": 16},
        {"kv_offload": False},
        {"split_mode": "none"},
        {"n_cpu_moe": 1},
        {"override_tensor": (OverrideTensor(pattern="nothing", buffer_type="CPU"),)},
        {"date": "2024-02"},
    ],
    ids=str,
)
def test_pipeline_parallelism_has_conditions(change: dict[str, Any]) -> None:
    """Two full cards are pipelined with four copies; each of these alone ends that."""
    cards = (gpu(), gpu())
    assert placed(*cards).sched_copies == 4
    assert placed(*cards, **change).sched_copies == 1


def test_without_offload_the_host_holds_all_caches() -> None:
    """-nkvo leaves no cache on a card."""
    placement = placed(gpu(), kv_offload=False)
    assert placement.devices[0].kv_bytes == 0
    assert placement.host.kv_bytes == 268435456


def test_every_card_of_a_joint_device_has_all_layers() -> None:
    """Split mode tensor: each card holds a slice of every block, scratch in full, and a buffer for partial results."""
    placement = placed(gpu(), gpu(), split_mode="tensor")
    first, second = placement.devices
    assert first.layers == second.layers == ((0, 16),)
    assert first.holds_output
    assert second.holds_output
    assert first.compute_bytes == second.compute_bytes > 0
    assert first.reduction_bytes == 4 * 2048 * 512


def test_the_smallest_offload_is_the_output_layer() -> None:
    """One slot on the card is the output layer, with no block."""
    placement = placed(gpu(), n_gpu_layers=1)
    device = placement.devices[0]
    assert (device.layers, device.holds_output, device.kv_bytes) == ((), True, 0)
    assert device.weights_bytes > 0


@given(layers=st.integers(0, 17), shares=st.tuples(st.floats(0.1, 9), st.floats(0.1, 9), st.floats(0.1, 9)))
def test_slots_and_bytes_are_conserved(layers: int, shares: tuple[float, float, float]) -> None:
    """Every slot has one place, and caches are those of a single card however they are spread."""
    cards = (gpu("rpc"), gpu("rpc"), gpu("rpc"))
    placement = placed(*cards, n_gpu_layers=layers, tensor_split=shares)
    assert sum(run.end - run.first for run in placement.slots.runs) == 17
    assert placement.host.kv_bytes + sum(device.kv_bytes for device in placement.devices) == 268435456
    assert [device.end_slot - device.first_slot for device in placement.devices] == [
        end - first for first, end in map(placement.slots.range_of, range(3))
    ]


@given(order=st.permutations(range(3)))
def test_like_cards_may_change_places(order: list[int]) -> None:
    """Permuting identical cards changes nothing."""
    cards = [gpu(slug="same"), gpu(slug="same"), gpu(slug="same")]
    assert placed(*(cards[index] for index in order)) == placed(*cards)


@pytest.mark.parametrize("row", [row for row in golden_rows("tensor") if "error" not in row.observed], ids=str)
def test_a_joint_device_is_placed_as_llamacpp_places_it(row: GoldenRow) -> None:
    """Golden rows of split mode tensor: weights, caches and scratch of the largest card and the host, exactly."""
    workload = Workload(context_tokens=row.config["ctx"])
    placement = place(row.model, rpc_rig(row.n_devices), replace(row.settings(), split_mode="tensor"), workload)
    largest, host = row.observed["largest_device"], row.observed["host"]
    assert max(device.weights_bytes for device in placement.devices) == largest["model_bytes"]
    assert max(device.kv_bytes for device in placement.devices) == largest["context_bytes"]
    assert max(device.compute_bytes for device in placement.devices) == largest["compute_bytes"]
    assert placement.host.weights_bytes == host["model_bytes"]
    assert placement.host.compute_bytes == host["compute_bytes"]


def test_buffers_without_a_pipeline_are_those_of_a_placement_without_one() -> None:
    """What a pipeline's copies take is found without placing the model again."""
    cards = gpu(), gpu(gib=12), gpu()
    piped = placed(*cards)
    plain = place(load_model(LLAMA), rig(*cards), LAYERS, WORKLOAD, may_pipeline=False)
    assert piped.pipeline_parallel
    assert unpipelined(piped).device_bytes == tuple(device.compute_bytes for device in plain.devices)
    assert unpipelined(piped).host_bytes == plain.host.compute_bytes
    assert unpipelined(piped).device_bytes != tuple(device.compute_bytes for device in piped.devices)
