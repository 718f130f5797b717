"""What vLLM refuses: divisions that do not come out, formats a card has no kernels for."""

import pytest

from service.core.engines.vllm.cache_types import CACHE_TYPES
from service.core.engines.vllm.formats import FORMATS
from service.core.engines.vllm.refusals import (
    model_dtype,
    possible_tensor_parallel,
    refuse_cache_type,
    refuse_cards,
    tensor_parallel_refusal,
)
from service.core.problems import Unsupported
from tests.core.engines.vllm.models import card, checkpoint


@pytest.mark.parametrize(
    ("name", "scheme", "sizes"),
    [
        ("qwen3-32b", "BF16", [1, 2, 4, 8, 16]),
        ("qwen3.6-27b", "BF16", [1, 2, 4, 8]),
        ("llama-3.3-70b", "BF16", [1, 2, 4, 8, 16]),
        ("qwen2.5-7b", "BF16", [1, 2, 4]),
        ("qwen3-30b-a3b", "BF16", [1, 2, 4, 8, 16]),
        # experts of 768 rows: 768 / 8 = 96 is no multiple of the blocks of 128
        ("qwen3-30b-a3b", "FP8", [1, 2]),
        ("gpt-oss-120b", "MXFP4", [1, 2, 4, 8, 16]),
    ],
)
def test_sizes_that_a_model_can_be_divided_by(name: str, scheme: str, sizes: list[int]) -> None:
    """Heads, KV heads, widths and blocks of scales must come out."""
    assert list(possible_tensor_parallel(checkpoint(name, scheme), 16, expert_parallel=False)) == sizes


@pytest.mark.parametrize(
    ("name", "scheme", "tensor_parallel", "reason"),
    [
        ("qwen3-32b", "BF16", 3, "Total number of attention heads (64) must be divisible by tensor parallel size (3)."),
        ("qwen3-30b-a3b", "FP8", 4, "is not divisible by weight quantization block"),
        ("qwen2.5-72b", "AWQ", 8, "is not divisible by group_size = 128"),
        ("phi-4", "BF16", 4, "KV heads cannot be shared out"),
    ],
)
def test_the_reason_is_vllm_s_own(name: str, scheme: str, tensor_parallel: int, reason: str) -> None:
    """Refusals say what vLLM would print."""
    found = tensor_parallel_refusal(checkpoint(name, scheme), tensor_parallel, expert_parallel=False)
    assert found is not None
    assert reason in found


def test_whole_experts_need_no_division() -> None:
    """With expert parallelism the blocks of experts are not cut."""
    model = checkpoint("qwen3-30b-a3b", "FP8")
    assert tensor_parallel_refusal(model, 4, expert_parallel=True) is None


@pytest.mark.parametrize(
    ("slug", "scheme", "runs"),
    [
        ("tesla-t4", "BF16", True),
        ("tesla-t4", "FP8", True),
        ("tesla-t4", "MXFP4", False),
        ("tesla-v100-sxm2-32gb", "BF16", False),
        ("rtx-3090", "FP8", True),
        ("rtx-3090", "NVFP4", True),
        ("rtx-3090", "MXFP4", True),
        ("rtx-2080-ti", "AWQ", True),
        ("b200", "NVFP4", True),
    ],
)
def test_formats_by_compute_capability(slug: str, scheme: str, runs: bool) -> None:
    """A card without kernels for a format is refused with what it could run."""
    if runs:
        refuse_cards([card(slug)], FORMATS[scheme])
        return
    with pytest.raises(Unsupported) as refused:
        refuse_cards([card(slug)], FORMATS[scheme])
    assert "rig.gpus" in refused.value.fields


@pytest.mark.parametrize("slug", ["apple-m3-ultra-80-core-gpu", "arc-a770-16gb"])
def test_backends_that_vllm_has_not(slug: str) -> None:
    """Only CUDA and ROCm are planned for."""
    with pytest.raises(Unsupported, match=r"engine.name llama\.cpp"):
        refuse_cards([card(slug)], FORMATS["BF16"])


def test_old_cards_compute_in_half_precision() -> None:
    """bfloat16 needs compute capability 8.0; one old card is enough."""
    assert model_dtype([card("rtx-3090")]) == "bfloat16"
    assert model_dtype([card("rtx-3090"), card("rtx-2080-ti")]) == "float16"


def test_cache_types_by_card_and_attention() -> None:
    """A four-bit cache is Blackwell's, a latent's layout is for latents."""
    assert set(CACHE_TYPES) > {"nvfp4", "fp8_ds_mla"}
    refuse_cache_type("nvfp4", [card("rtx-5090")], is_latent=False)
    with pytest.raises(Unsupported, match="compute capability"):
        refuse_cache_type("nvfp4", [card("rtx-3090")], is_latent=False)
    with pytest.raises(Unsupported, match="latent"):
        refuse_cache_type("fp8_ds_mla", [card("h100-sxm5-80gb")], is_latent=False)
