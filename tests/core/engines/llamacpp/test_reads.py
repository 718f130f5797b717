"""Bytes read for one token."""

import pytest

from service.core.architectures.hparams import read_hparams
from service.core.engines.llamacpp.context import resolve_context
from service.core.engines.llamacpp.kv_cache import kv_index
from service.core.engines.llamacpp.reads import read_kv_bytes, read_shape, read_weights_bytes
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.engines.llamacpp.versions import NEWEST
from service.core.engines.llamacpp.weights import Weights
from tests.models import load_model


def kv_read(reference: str, *, context_tokens: int, depth_tokens: float, parallel: int = 1) -> int:
    """Bytes of the whole cache read for one token at a depth."""
    hp = read_hparams(load_model(reference))
    index = kv_index(hp, resolve_context(hp, LlamaCppSettings(), context_tokens, parallel, NEWEST))
    whole = index.bytes_between(0, hp.n_layer_all, "cuda")
    return read_kv_bytes(hp, index, 0, hp.n_layer_all + 1, "cuda", kv_bytes=whole, depth_tokens=depth_tokens)


def test_facts_of_a_mixture_of_experts() -> None:
    """A token uses 8 of 128 experts; a weight of Q4_K to Q6_K takes about five bits."""
    model = load_model("qwen3-30b-a3b:Q4_K_M")
    weights = read_shape(model, read_hparams(model)).weights
    assert weights.used_fraction == 8 / 128
    assert 2 * 8 / 7 < weights.expert_flops_per_byte < 2 * 8 / 4
    assert not weights.half_precision


def test_tables_are_not_read_and_experts_by_their_share() -> None:
    """Of resident weights, look-up tables count not at all and routed experts by the share a token uses."""
    model = load_model("qwen3-30b-a3b:Q4_K_M")
    weights = Weights(weights_bytes=1000, expert_bytes=640, lookup_bytes=100)
    assert read_weights_bytes(weights, read_shape(model, read_hparams(model))) == 1000 - 100 - 640 + 40


def test_sixteen_bit_weights_are_told() -> None:
    """An F16 model stores a weight in two bytes, its norms aside."""
    model = load_model("llama-3.1-8b:F16")
    weights = read_shape(model, read_hparams(model)).weights
    assert weights.half_precision
    assert weights.dense_flops_per_byte == pytest.approx(1.0)


def test_a_full_cache_is_read_up_to_the_depth() -> None:
    """Llama 3.1 8B keeps 128 KiB per token and reads as many as there are before it."""
    assert kv_read("llama-3.1-8b:Q4_K_M", context_tokens=8192, depth_tokens=1000) == 1000 * 131_072


def test_each_stream_reads_its_own_part() -> None:
    """Separate streams do not make a token read more."""
    one = kv_read("llama-3.1-8b:Q4_K_M", context_tokens=8192, depth_tokens=1000)
    four = kv_read("llama-3.1-8b:Q4_K_M", context_tokens=32768, depth_tokens=1000, parallel=4)
    assert one == four


def test_a_windowed_layer_reads_no_more_than_its_window() -> None:
    """Gemma 3 reads its few full layers up to the depth, the others up to the window of 1,024."""
    near = kv_read("gemma-3-27b:Q4_K_M", context_tokens=65536, depth_tokens=1024)
    far = kv_read("gemma-3-27b:Q4_K_M", context_tokens=65536, depth_tokens=2048)
    full_layers, layers = 10, 62
    assert (far - near) / near == pytest.approx(full_layers / layers)


def test_a_recurrent_state_is_read_whole_at_any_depth() -> None:
    """The state of a hybrid model does not grow with the depth, only its attention does."""
    reads = [
        kv_read("qwen3-next-80b-a3b:Q4_K_M", context_tokens=65536, depth_tokens=depth) for depth in (0, 1000, 2000)
    ]
    assert reads[0] > 0
    assert reads[2] - reads[1] == pytest.approx(reads[1] - reads[0], rel=1e-6)


def test_kernels_are_counted_per_slot() -> None:
    """A llama block multiplies seven matrices, the output layer one."""
    model = load_model("llama-3.1-8b:Q4_K_M")
    before = read_shape(model, read_hparams(model)).kernels_before
    assert before[1] - before[0] == 7
    assert before[33] - before[32] == 1
    assert before[33] == 32 * 7 + 1


def test_experts_are_counted_apart() -> None:
    """A block of Qwen 3 30B multiplies four attention matrices and the router, and three stacks of experts."""
    model = load_model("qwen3-30b-a3b:Q4_K_M")
    shape = read_shape(model, read_hparams(model))
    assert shape.kernels_before[1] == 5
    assert shape.expert_kernels_before[1] == 3


def test_attention_grows_with_depth_and_stops_at_the_window() -> None:
    """Llama computes with every token before; of Gemma 3's layers only one in six does beyond the window."""
    llama, gemma = (load_model(name) for name in ("llama-3.1-8b:Q4_K_M", "gemma-3-27b:Q4_K_M"))
    shape = read_shape(llama, read_hparams(llama))
    assert shape.attention_flops(0, 33, 2000, 0) == 2 * shape.attention_flops(0, 33, 1000, 0)
    assert shape.attention_flops(0, 33, 1, 0) == 32 * 2 * 32 * (128 + 128)
    shape, hp = read_shape(gemma, read_hparams(gemma)), read_hparams(gemma)
    near, far = (shape.attention_flops(0, hp.n_layer_all, depth, hp.n_swa) for depth in (1024, 2048))
    assert (far - near) / near == pytest.approx(10 / 62)
