"""The search for the fullest layout."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.core.engines.llamacpp.fit import fit
from service.core.engines.llamacpp.fit.trial import _step
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.problems import Unsupported
from service.core.types import Workload
from tests.models import load_model
from tests.rigs import gpu, rig


@pytest.mark.parametrize(
    ("delta", "target", "low", "high", "step"),
    [
        (40, 50, 0, 100, 20),
        (40, 1, 0, 100, 1),  # less than one layer: one is tried
        (40, 99, 0, 100, 39),  # never the high end itself
        (40, -10, 0, 100, 39),  # below the low end: -4 wraps to the largest number, as an unsigned one does
        (40, -1, 0, 100, 1),  # -0.4 is rounded to zero
    ],
)
def test_a_step_is_where_the_line_reaches_the_target(delta: int, target: int, low: int, high: int, step: int) -> None:
    """64-bit division towards zero, cut to 32 bit without a sign, between one and one less than all."""
    assert _step(delta, target, low, high) == step


def test_a_line_without_slope_is_refused() -> None:
    """llama.cpp would divide by zero."""
    with pytest.raises(Unsupported, match="division by zero"):
        _step(2, -1, 0, 0)


@settings(max_examples=25, deadline=None)
@given(gib=st.floats(2, 8), tokens=st.sampled_from([4096, 16384]))
def test_a_card_is_filled_up_to_its_target(gib: float, tokens: int) -> None:
    """What the fit places needs no more than is free less the margin, and one layer more would."""
    model = load_model("llama-3.1-8b:Q4_K_M")
    found = fit(model, rig(gpu("rpc", gib)), LlamaCppSettings(), Workload(context_tokens=tokens))
    question, layers = found.question, found.settings.n_gpu_layers
    (target,) = question.targets_bytes
    assert question.measure(found.settings, tokens).device_bytes[0] <= target
    if isinstance(layers, int) and layers <= question.n_layer:
        one_more = replace(found.settings, n_gpu_layers=layers + 1)
        assert question.measure(one_more, tokens).device_bytes[0] > target
