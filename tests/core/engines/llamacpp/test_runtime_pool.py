"""The pool that CUDA and ROCm take beside the reserved buffers."""

import pytest

from service.core.architectures.hparams import read_hparams
from service.core.engines.llamacpp.context import resolve_context
from service.core.engines.llamacpp.runtime_pool import runtime_pool_bytes
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.engines.llamacpp.versions import NEWEST
from service.core.types import Backend
from service.core.units import MIB
from tests.models import load_model


def pool(reference: str, backend: Backend = "cuda", *, n_ubatch: int = 512) -> int:
    model = load_model(reference)
    hp = read_hparams(model)
    ctx = resolve_context(hp, LlamaCppSettings(n_ubatch=n_ubatch), 8192, 1, NEWEST)
    return runtime_pool_bytes(model, hp, ctx, backend)


def test_the_widest_quantised_product_counts() -> None:
    """Llama 70B's down projection takes 512 rows of 28,672 values at 36 bytes per 32, in steps of 2 MiB."""
    assert pool("llama-3.3-70b:Q4_K_M") == 16 * MIB
    assert 16 * MIB >= 512 * 28_672 * 36 // 32


def test_a_floating_model_converts_inputs_and_outputs() -> None:
    """Weights that are not quantised are multiplied as f16 on both sides."""
    needed_bytes = 2 * 512 * (4096 + 14_336)
    assert needed_bytes <= pool("llama-3.1-8b:F16") < needed_bytes + 2 * MIB


def test_each_expert_used_has_its_rows() -> None:
    """A mixture of experts quantises a row per token and expert used."""
    assert pool("qwen3-30b-a3b:Q4_K_M") >= 512 * 8 * 2048 * 36 // 32


@pytest.mark.parametrize("backend", ["vulkan", "metal", "sycl", "rpc", "cpu"])
def test_other_backends_have_no_pool(backend: Backend) -> None:
    """What is reserved is all they take."""
    assert pool("llama-3.3-70b:Q4_K_M", backend) == 0


def test_larger_passes_need_a_larger_pool() -> None:
    """Four times the rows are four times the bytes."""
    assert pool("llama-3.3-70b:Q4_K_M", n_ubatch=2048) == 4 * 512 * 28_672 * 36 // 32 // (2 * MIB) * 2 * MIB + 2 * MIB
