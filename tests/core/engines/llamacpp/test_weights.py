"""Weights of every device and the host, against what llama.cpp itself allocates and against laws."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.architectures.hparams import read_hparams
from service.core.engines.llamacpp.buckets import buckets
from service.core.engines.llamacpp.overrides import Override
from service.core.engines.llamacpp.slots import CPU, split_slots
from service.core.engines.llamacpp.weights import PlacedWeights, place_weights, slot_sums, weight_layout, weights_of
from service.core.types import Backend, Tensor
from tests.golden_rows import PLACEMENT_FILES, GoldenRow, golden_rows
from tests.models import load_model

MODELS = ("llama-3.3-70b:Q4_K_M", "gemma-3-27b:Q4_K_M", "qwen3-30b-a3b:Q4_K_M", "gemma-4-e4b:Q4_K_M", "glm-5:Q4_K_M")
BACKENDS: tuple[Backend, ...] = ("cuda", "rpc", "vulkan", "metal", "sycl", "rocm")
AMX_BYTES_PER_BLOCK: Final = {"q8_0": 4, "q4_K": 4, "q5_K": 4, "q6_K": 0, "iq4_xs": 2}
"""What a block grows by in the buffers of a CPU with AMX (get_row_size, ggml/src/ggml-cpu/amx/mmq.cpp:246)."""


def placed(row: GoldenRow) -> PlacedWeights:
    """Weights as planned."""
    layout = weight_layout(row.model, row.hp, (), row.config.get("n_cpu_moe") or 0)
    return place_weights(layout, row.slots, ("rpc",) * row.n_devices)


def amx_bytes(row: GoldenRow) -> int:
    """What AMX buffers of the row's host take beyond the tensors themselves."""
    first, end = row.slots.range_of(CPU)
    by_slot = weight_layout(row.model, row.hp).by_slot
    tensors: list[Tensor] = [loaded.tensor for slot in by_slot[first:end] for loaded in slot if loaded.op == "mul_mat"]
    return sum(
        tensor.size_bytes // tensor.type.block_bytes * AMX_BYTES_PER_BLOCK.get(tensor.type.name, 0)
        for tensor in tensors
    )


def with_header(file: str) -> list[GoldenRow]:
    """Rows whose exact quant has a header."""
    return [row for row in golden_rows(file) if row.has_header]


def runs(row: GoldenRow) -> list[list[object]]:
    """Slots as the golden files write them."""
    return [["host" if run.device == CPU else f"gpu{run.device}", run.end - run.first] for run in row.slots.runs]


@pytest.mark.parametrize("file", PLACEMENT_FILES)
def test_slots_of_every_row_are_llamacpps(file: str) -> None:
    """Every golden row that recorded its slots: the device of every block and of the output layer."""
    recorded = [row for row in golden_rows(file) if row.observed["slots"]]
    assert len(recorded) >= len(golden_rows(file)) - 2
    assert [str(row) for row in recorded if runs(row) != row.observed["slots"]] == []


@pytest.mark.parametrize("file", PLACEMENT_FILES)
def test_weights_of_every_device_are_what_llamacpp_allocates(file: str) -> None:
    """Every golden row with a header: weights of each device, equal to the byte."""
    rows = with_header(file)
    wrong = [
        str(row)
        for row in rows
        if [device.weights_bytes for device in placed(row).devices]
        != [device["model_bytes"] for device in row.observed["devices"]]
    ]
    assert len(rows) > 150
    assert wrong == []


@pytest.mark.parametrize("file", ["placement", "placement_new", "architectures"])
def test_weights_of_the_host_are_what_llamacpp_allocates(file: str) -> None:
    """Every golden row: weights in main memory, equal to the byte."""
    wrong = [
        str(row) for row in golden_rows(file) if placed(row).host.weights_bytes != row.observed["host"]["model_bytes"]
    ]
    assert wrong == []


def test_weights_of_the_host_are_what_llamacpp_allocates_beside_amx_packing() -> None:
    """The quants were measured with AMX buffers, whose blocks are larger; the tensors in them are the same."""
    wrong = [
        str(row)
        for row in with_header("quants")
        if placed(row).host.weights_bytes + amx_bytes(row) != row.observed["host"]["model_bytes"]
    ]
    assert wrong == []


def test_only_quants_nobody_ships_lack_a_header() -> None:
    """Rows without a header are requantised GPT-OSS, which is shipped as MXFP4 alone."""
    missing = {row.model_name.partition(":")[0] for row in golden_rows("quants") if not row.has_header}
    assert missing == {"gpt-oss-120b"}
    assert all(row.has_header for file in PLACEMENT_FILES if file != "quants" for row in golden_rows(file))


@given(
    reference=st.sampled_from(MODELS),
    n_gpu_layers=st.integers(0, 90),
    weights=st.lists(st.floats(0.1, 10), min_size=1, max_size=4),
    n_cpu_moe=st.integers(0, 50),
)
def test_no_byte_is_lost_or_counted_twice(
    reference: str, n_gpu_layers: int, weights: list[float], n_cpu_moe: int
) -> None:
    """Loaded tensors are placed once, tied embeddings twice where input and output layer lie apart."""
    model = load_model(reference)
    hp = read_hparams(model)
    slots = split_slots(hp.n_layer_all, n_gpu_layers, weights)
    placed_weights = place_weights(weight_layout(model, hp, (), n_cpu_moe), slots, ("rpc",) * len(weights))
    total = placed_weights.host.weights_bytes + sum(device.weights_bytes for device in placed_weights.devices)
    unused = sum(tensor.size_bytes for tensor in buckets(model, hp).unused)
    once = sum(tensor.size_bytes for tensor in model.tensors) - unused
    shared = sum(tensor.tensor.size_bytes for tensor in buckets(model, hp).shared if tensor.op == "mul_mat")
    copies = 1 if slots.output_device != CPU or reference.startswith("gemma-4") else 0
    assert 0 <= total - once - copies * shared < 32 * len(model.tensors) + 4096 * (len(weights) + 1)


@given(reference=st.sampled_from(MODELS), backend=st.sampled_from(BACKENDS), cut=st.integers(0, 90))
def test_ranges_add_up(reference: str, backend: Backend, cut: int) -> None:
    """The sums of two neighbouring ranges of slots are that of both together, on every backend."""
    model = load_model(reference)
    hp = read_hparams(model)
    held = slot_sums(weight_layout(model, hp), backend).held
    middle = min(cut, hp.n_layer_all + 1)
    assert (held[middle] - held[0]) + (held[-1] - held[middle]) == held[-1]


@pytest.mark.parametrize("reference", MODELS)
def test_like_cards_may_change_places(reference: str) -> None:
    """Two cards with equal shares hold the same whichever is named first."""
    model = load_model(reference)
    hp = read_hparams(model)
    layout = weight_layout(model, hp)
    slots = split_slots(hp.n_layer_all, 999, (2.0, 2.0, 1.0))
    one = place_weights(layout, slots, ("cuda", "cuda", "vulkan"))
    assert one == place_weights(layout, split_slots(hp.n_layer_all, 999, (3.0, 3.0, 1.5)), ("cuda", "cuda", "vulkan"))


def test_experts_and_tables_are_told_apart() -> None:
    """Routed experts and the embedding table are named, since tokens read only part of them."""
    model = load_model("qwen3-30b-a3b:Q4_K_M")
    hp = read_hparams(model)
    placed_weights = place_weights(weight_layout(model, hp), split_slots(hp.n_layer_all, 999, (1.0,)), ("cuda",))
    experts = sum(tensor.size_bytes for tensor in model.tensors if "_exps." in tensor.name)
    assert placed_weights.devices[0].expert_bytes == experts
    assert placed_weights.host.lookup_bytes == model.tensor_by_name["token_embd.weight"].size_bytes


def test_an_override_moves_exactly_the_named_tensors() -> None:
    """Experts of one block sent to the second card leave the first by their size."""
    model = load_model("qwen3-30b-a3b:Q4_K_M")
    hp = read_hparams(model)
    slots = split_slots(hp.n_layer_all, 999, (1.0, 0.0))
    plain = place_weights(weight_layout(model, hp), slots, ("rpc", "rpc"))
    override = (Override(pattern=r"blk\.7\.ffn_.*_exps", target=1),)
    moved = place_weights(weight_layout(model, hp, override), slots, ("rpc", "rpc"))
    size_bytes = sum(t.size_bytes for t in model.tensors if t.name.startswith("blk.7.ffn_") and "_exps" in t.name)
    assert moved.devices[1].weights_bytes == size_bytes
    assert plain.devices[0].weights_bytes - moved.devices[0].weights_bytes == size_bytes
    assert moved.host == plain.host


def test_tied_embeddings_sent_to_the_output_card_are_held_once() -> None:
    """An override of token_embd reaches both its uses; they share the copy."""
    model = load_model("llama-3.2-1b:Q4_K_M")
    hp = read_hparams(model)
    layout = weight_layout(model, hp, (Override(pattern="token_embd", target=0),))
    placed_weights = place_weights(layout, split_slots(hp.n_layer_all, 999, (1.0,)), ("rpc",))
    assert placed_weights.host.weights_bytes == 0
    assert placed_weights.devices[0].weights_bytes == sum(tensor.size_bytes for tensor in model.tensors)


@pytest.mark.parametrize("backend", ["cuda", "vulkan"])
@pytest.mark.parametrize("n_cpu_moe", [1, 20, 47])
def test_experts_of_some_blocks_are_moved_by_themselves(backend: Backend, n_cpu_moe: int) -> None:
    """Sums that are joined of those with all experts and with none are those of the tensors that stay."""
    model = load_model("qwen3-30b-a3b:Q4_K_M")
    hp = read_hparams(model)
    layout, whole = (weight_layout(model, hp, (), n) for n in (n_cpu_moe, 0))
    moved = [
        loaded
        for slot, tensors in enumerate(whole.by_slot)
        for loaded in tensors
        if slot < n_cpu_moe and loaded.kind.is_routed_expert
    ]
    assert set(layout.locations) == {loaded.tensor.name for loaded in moved}
    held, all_held = slot_sums(layout, backend).held, slot_sums(whole, backend).held
    assert held[-1] + weights_of(moved, backend) == all_held[-1]
    assert held[0] == all_held[0]
    assert held[-1] - held[n_cpu_moe] == all_held[-1] - all_held[n_cpu_moe]
