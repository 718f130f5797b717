"""Bytes read for one token."""

import pytest

from service.core.architectures.hparams import read_hparams
from service.core.engines.llamacpp.context import resolve_context
from service.core.engines.llamacpp.kv_cache import kv_index
from service.core.engines.llamacpp.reads import attention_flops, read_kv_bytes, read_shape, read_weights_bytes
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


def test_tables_are_not_read_and_experts_by_their_share() -> None:
    """Of resident weights, look-up tables count not at all and routed experts by the share a token uses."""
    model = load_model("qwen3-30b-a3b:Q4_K_M")
    shape = read_shape(model, read_hparams(model))
    weights = Weights(weights_bytes=1000, expert_bytes=640, lookup_bytes=100)
    assert shape.used_fraction == 8 / 128
    assert read_weights_bytes(weights, shape) == 1000 - 100 - 640 + 40


def test_many_tokens_use_more_experts_but_never_all_twice() -> None:
    """Tokens of one step share experts: two use less than twice as many, very many use all."""
    model = load_model("qwen3-30b-a3b:Q4_K_M")
    shape = read_shape(model, read_hparams(model))
    assert shape.expert_fraction(1) == pytest.approx(8 / 128)
    assert shape.expert_fraction(2) == pytest.approx(2 * 8 / 128 - (8 / 128) ** 2)
    assert shape.expert_fraction(10_000) == pytest.approx(1.0)


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


def test_attention_grows_with_prompt_and_depth() -> None:
    """Twice the prompt is four times the pairs; what is cached adds to every one of them."""
    hp = read_hparams(load_model("llama-3.1-8b:Q4_K_M"))
    assert attention_flops(hp, 2048, 0) == pytest.approx(4 * attention_flops(hp, 1024, 0))
    assert attention_flops(hp, 1, 1000) > attention_flops(hp, 1, 0)
