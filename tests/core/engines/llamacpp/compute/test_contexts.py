"""One graph stands for every context length: its buffers equal those of a graph built for that very length."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.core.engines.llamacpp.compute import compute_buffers
from service.core.engines.llamacpp.compute.graph_inputs import graph_inputs
from service.core.problems import PlanProblem
from service.core.types import Backend
from tests.core.engines.llamacpp.compute.architectures import catalogue_models, small_models
from tests.core.engines.llamacpp.compute.questions import question, without_symbols
from tests.models import load_model

BACKENDS: tuple[Backend, ...] = ("cuda", "vulkan", "metal", "sycl", "rpc")
CONTEXTS = st.one_of(st.integers(1, 4096), st.integers(1, 2**20), st.sampled_from((256, 4096, 32768, 131072)))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    name=st.sampled_from(sorted(small_models())),
    context_tokens=CONTEXTS,
    parallel=st.sampled_from((1, 1, 4)),
    backend=st.sampled_from(BACKENDS),
    flash_attn=st.booleans(),
    cards=st.integers(1, 3),
)
def test_small_models_at_any_length(
    name: str, context_tokens: int, parallel: int, backend: Backend, flash_attn: bool, cards: int
) -> None:
    """Every small architecture, with streams, with and without fused attention, on one to three cards."""
    try:
        asked = question(
            small_models()[name],
            backends=(backend,) * cards,
            context_tokens=context_tokens,
            parallel=parallel,
            flash_attn=flash_attn,
        )
        found = compute_buffers(asked)
    except PlanProblem:
        return
    assert found == without_symbols(asked)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(name=st.sampled_from(sorted(catalogue_models())), context_tokens=CONTEXTS, backend=st.sampled_from(BACKENDS))
def test_large_models_at_any_length(name: str, context_tokens: int, backend: Backend) -> None:
    """Every architecture of the catalogue on two cards."""
    asked = question(catalogue_models()[name], backends=(backend, backend), context_tokens=context_tokens)
    assert compute_buffers(asked) == without_symbols(asked)


@pytest.mark.parametrize("tokens", [4096, 65536])
def test_lengths_share_their_graphs(tokens: int) -> None:
    """Two contexts of one model lead to the same graphs, so the second costs next to nothing."""
    model = load_model("llama-3.3-70b:Q4_K_M")
    first, second = (question(model, context_tokens=context) for context in (8192, tokens))
    assert graph_inputs(first, symbolic=True) == graph_inputs(second, symbolic=True)
