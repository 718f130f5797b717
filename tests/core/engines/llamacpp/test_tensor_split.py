"""Split mode tensor, against what llama.cpp itself allocates, worked examples and laws."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.architectures.hparams import read_hparams
from service.core.engines.llamacpp.alike_tensors import layer_turns
from service.core.engines.llamacpp.kv_cache import kv_index
from service.core.engines.llamacpp.slots import split_slots
from service.core.engines.llamacpp.split_axes import MIRRORED, split_axis
from service.core.engines.llamacpp.split_parts import Segment, segment_lengths
from service.core.engines.llamacpp.tensor_split import (
    cut_segment,
    reduction_bytes,
    split_caches,
    split_weights,
    tensor_split,
)
from service.core.engines.llamacpp.weights import PlacedWeights, weight_layout
from service.core.problems import Unsupported
from service.core.tensor_types import TENSOR_TYPE_BY_NAME
from service.core.types import Model, Tensor
from tests.golden_rows import GoldenRow, golden_rows
from tests.models import load_model
from tests.shapes import LLAMA, model, shape

Q4_K = TENSOR_TYPE_BY_NAME["q4_K"]
ROWS = [row for row in golden_rows("tensor") if "error" not in row.observed]


def split_of(row: GoldenRow) -> PlacedWeights:
    """Weights of a golden row as planned."""
    split = tensor_split(row.model, row.hp, ("rpc",) * row.n_devices, row.settings().tensor_split or ())
    return split_weights(split, weight_layout(row.model, row.hp), split_slots(row.hp.n_layer_all, 999, (1.0,)))


def test_there_are_rows_of_both_kinds() -> None:
    """The golden file has splits and refusals."""
    assert len(ROWS) == 21
    assert len(golden_rows("tensor")) == 24


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_weights_of_the_largest_device_and_the_host_are_llamacpps(row: GoldenRow) -> None:
    """Largest weights over the devices, and those of the host, equal to the byte."""
    placed = split_of(row)
    assert max(device.weights_bytes for device in placed.devices) == row.observed["largest_device"]["model_bytes"]
    assert placed.host.weights_bytes == row.observed["host"]["model_bytes"]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_caches_of_the_largest_device_are_llamacpps(row: GoldenRow) -> None:
    """Largest cache over the devices, recurrent state included, equal to the byte."""
    split = tensor_split(row.model, row.hp, ("rpc",) * row.n_devices, row.settings().tensor_split or ())
    caches = split_caches(split, kv_index(row.hp, row.ctx()), 0, row.hp.n_layer_all)
    assert max(caches) == row.observed["largest_device"]["context_bytes"]


def six_layers() -> Model:
    """The worked example: 2048 wide, 16 heads of 128 with 4 KV heads, Q4_K, six layers."""
    size_bytes = Q4_K.row_bytes(2048) * 2048
    tensors = tuple(
        Tensor(name=f"blk.{il}.attn_output.weight", type=Q4_K, shape=(2048, 2048), size_bytes=size_bytes)
        for il in range(6)
    )
    return model(
        "llama",
        {
            **LLAMA,
            "block_count": 6,
            "embedding_length": 2048,
            "attention.head_count": 16,
            "attention.head_count_kv": 4,
        },
        tensors,
    )


def test_kv_heads_that_do_not_divide_are_shared_out_in_turn() -> None:
    """Four KV heads on three devices go 1, 1, 2, and another device gets the two in each layer."""
    parsed = six_layers()
    split = tensor_split(parsed, read_hparams(parsed), ("rpc",) * 3, ())
    heads = [split.slices("cache_k", il, (512,), Q4_K).lengths for il in range(6)]
    assert heads == [(128, 128, 256), (256, 128, 128), (128, 256, 128)] * 2


def test_turns_count_earlier_layers_of_the_same_sort() -> None:
    """Recurrent and attention layers, windowed and full ones, take turns apart from each other."""
    parsed = load_model("qwen3.5-4b:Q4_K_M")
    assert layer_turns(read_hparams(parsed))[:8] == (0, 1, 2, 0, 3, 4, 5, 1)


@given(
    pieces=st.integers(1, 64),
    piece=st.sampled_from([1, 32, 128, 512]),
    repeats=st.integers(1, 3),
    shares=st.lists(st.integers(0, 9).map(float), min_size=1, max_size=6),
    turn=st.integers(0, 5),
)
def test_nothing_of_a_segment_is_lost(pieces: int, piece: int, repeats: int, shares: list[float], turn: int) -> None:
    """Every element of a segment is on exactly one device, and all but the last in turn hold whole pieces."""
    segment = Segment(length=pieces * piece, repeats=repeats, piece=piece)
    cut = cut_segment(segment, shares, len(shares), turn)
    assert sum(cut) == segment.length * repeats
    assert min(cut) >= 0
    assert all(elements % piece == 0 for elements in cut)


def test_even_shares_are_the_default() -> None:
    """No shares and all-zero shares cut alike, whatever the devices' sizes."""
    segment = Segment(length=1024, repeats=1, piece=128)
    assert cut_segment(segment, (), 3, 0) == cut_segment(segment, (0.0, 0.0, 0.0), 3, 0) == (256, 384, 384)


def test_axes() -> None:
    """Projections into heads are cut by rows, those out of them along the heads; norms and the router are mirrored."""
    llama = shape("llama")
    axes = {
        name: split_axis(name, (256, 256), llama).axis
        for name in (
            "attn_q.weight",
            "attn_output.weight",
            "ffn_down_exps.weight",
            "output.weight",
            "ffn_gate_inp.weight",
        )
    }
    assert list(axes.values()) == [1, 0, 0, 1, MIRRORED]
    assert split_axis("attn_q_norm.weight", (32,), llama).axis == MIRRORED
    assert split_axis("attn_q_norm.weight", (32, 8), llama).axis == 1
    hrm = shape("hrm_text", hrm__layers_per_stack=1, hrm__h_cycles=2, hrm__l_cycles=1)
    assert split_axis("attn_q.weight", (256, 256), hrm).axis == MIRRORED


def test_fused_projections_are_cut_part_by_part() -> None:
    """Fused q, k and v are three segments of whole heads; a fused gate and up two of equal length."""
    phi = shape("phi3")
    assert segment_lengths("attn_qkv.weight", 256 + 64 + 64, 0, phi) == ((256, 1), (64, 2))
    assert segment_lengths("ffn_up.weight", 1024, 0, phi) == ((512, 2),)
    assert segment_lengths("ffn_up.weight", 512, 0, phi) == ((512, 1),)


def test_parts_that_do_not_add_up_are_refused() -> None:
    """A fused projection of another height than its heads say makes llama.cpp abort."""
    with pytest.raises(Unsupported, match="split mode tensor cannot cut"):
        segment_lengths("attn_qkv.weight", 400, 0, shape("phi3"))


def test_state_without_a_projection_to_go_by_is_refused() -> None:
    """RWKV's state has no ssm_out to be cut after, where llama.cpp aborts."""
    parsed = load_model("llama-3.2-1b:Q4_K_M")
    split = tensor_split(parsed, read_hparams(parsed), ("rpc", "rpc"), ())
    with pytest.raises(Unsupported, match=r"ssm_out\.weight"):
        split.slices("cache_r", 0, (256,), Q4_K)


def test_partial_results_need_a_buffer_per_step_of_a_butterfly() -> None:
    """Two devices add up in one step, three and four in two, one in none; experts multiply the result."""
    dense, ctx = ROWS[0].hp, ROWS[0].ctx()
    one = 4 * dense.n_embd * ctx.n_tokens
    assert [reduction_bytes(dense, ctx, devices) for devices in (1, 2, 3, 4, 5)] == [0, one, 2 * one, 2 * one, 3 * one]


@given(devices=st.integers(2, 4), shares=st.lists(st.integers(1, 9).map(float), min_size=4, max_size=4))
def test_cut_weights_add_up_to_more_than_the_model_by_the_mirrored_part(devices: int, shares: list[float]) -> None:
    """What is cut is held once over all devices; what is mirrored, tied embeddings here, on each of them."""
    parsed = load_model("llama-3.2-1b:Q4_K_M")
    hp = read_hparams(parsed)
    split = tensor_split(parsed, hp, ("rpc",) * devices, tuple(shares[:devices]))
    placed = split_weights(split, weight_layout(parsed, hp), split_slots(hp.n_layer_all, 999, (1.0,)))
    mirrored = ("token_embd.", "_norm.", "rope_freqs.")
    once = sum(t.size_bytes for t in parsed.tensors if not any(word in t.name for word in mirrored))
    each = sum(t.size_bytes for t in parsed.tensors if any(word in t.name for word in mirrored))
    assert sum(device.weights_bytes for device in placed.devices) == once + devices * each
