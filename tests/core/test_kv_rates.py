"""What a token of context costs, against arithmetic by hand and against the placement's own caches."""

from dataclasses import replace

import pytest

from service.core.architectures.hparams import read_hparams
from service.core.engines.llamacpp.context import resolve_context
from service.core.engines.llamacpp.kv_cache import kv_index
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.engines.llamacpp.versions import version_rules
from service.core.kv_rates import kv_rates
from service.core.problems import Unsupported
from tests.models import load_architecture_model, load_model


def test_grouped_query_attention() -> None:
    """Llama 3.3 70B: 80 layers, 8 heads of 128 for K and V; 34 bytes hold 32 values in q8_0."""
    rates = kv_rates(load_model("llama-3.3-70b:Q4_K_M"))
    values = 80 * 8 * 128 * 2
    assert rates["f16"].per_token_bytes == values * 2 == 327_680
    assert rates["q8_0"].per_token_bytes == values * 34 / 32
    assert rates["q4_0"].per_token_bytes == values * 18 / 32
    assert rates["f32"].per_token_bytes == values * 4
    assert {rate.constant_bytes for rate in rates.values()} == {0}


def test_one_latent_instead_of_keys_and_values() -> None:
    """DeepSeek R1: 61 layers cache 512 + 64 values each, once."""
    assert kv_rates(load_model("deepseek-r1-671b:Q4_K_M"))["f16"].per_token_bytes == 61 * (512 + 64) * 2


def test_sliding_windows_are_constant() -> None:
    """GPT-OSS 20B: 12 of 24 layers grow; the windows of the others are as long as a window and a batch, padded."""
    rate = kv_rates(load_model("gpt-oss-20b:MXFP4"))["f16"]
    row_bytes = 8 * 64 * 2 * 2
    assert rate.per_token_bytes == 12 * row_bytes
    assert rate.constant_bytes == 12 * row_bytes * 768


def test_recurrent_state_is_constant() -> None:
    """A Mamba caches nothing per token, only its state."""
    rates = kv_rates(load_architecture_model("mamba2-dense"))
    assert {rate.per_token_bytes for rate in rates.values()} == {0}
    assert all(rate.constant_bytes > 0 for rate in rates.values())


def test_types_that_the_engine_refuses_are_left_out() -> None:
    """Blocks of 32 do not divide heads of 80: only unquantised caches remain."""
    model = load_model("llama-3.2-1b:Q4_K_M")
    heads = {"llama.attention.key_length": 80, "llama.attention.value_length": 80}
    rates = kv_rates(replace(model, metadata={**model.metadata, **heads}))
    assert set(rates) == {"f32", "f16", "bf16"}
    assert rates["f16"].per_token_bytes == 16 * 8 * 80 * 2 * 2


def test_what_is_no_language_model_has_no_rates() -> None:
    """There is no rule to compute them by."""
    with pytest.raises(Unsupported):
        kv_rates(replace(load_model("llama-3.2-1b:Q4_K_M"), architecture="clip"))


@pytest.mark.parametrize("reference", ["llama-3.3-70b:Q4_K_M", "gpt-oss-20b:MXFP4", "gemma-3-27b:Q4_K_M"])
@pytest.mark.parametrize("context_tokens", [32_768, 131_072])
def test_rates_are_those_of_the_placement(reference: str, context_tokens: int) -> None:
    """Constant and rate give the very bytes that a context of any length takes."""
    model = load_model(reference)
    hp = read_hparams(model)
    ctx = resolve_context(hp, LlamaCppSettings(), context_tokens, 1, version_rules(None, None))
    rate = kv_rates(model)["f16"]
    cached_bytes = kv_index(hp, ctx).bytes_between(0, hp.n_layer_all, "cpu")
    assert rate.constant_bytes + rate.per_token_bytes * context_tokens == cached_bytes
