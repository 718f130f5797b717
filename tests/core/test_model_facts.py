"""The few numbers people know a model by, against what their makers say."""

import pytest

from service.core.model_facts import model_facts
from tests.models import load_model


@pytest.mark.parametrize(
    ("reference", "parameters_b", "active_b"),
    [
        # model cards, in billions
        ("llama-3.3-70b:Q4_K_M", 70.6, 70.6),
        ("llama-3.1-405b:Q4_K_M", 405.9, 405.9),
        ("mixtral-8x7b:Q4_K_M", 46.7, 12.9),
        ("qwen3-30b-a3b:Q4_K_M", 30.5, 3.3),
        ("qwen3-235b-a22b:Q4_K_M", 235.1, 22.2),
        ("deepseek-r1-671b:Q4_K_M", 671.0, 37.5),
        ("kimi-k2-1t:Q4_K_M", 1026.4, 32.9),
        ("qwen3-0.6b:Q4_K_M", 0.6, 0.6),
    ],
)
def test_parameters_are_those_of_the_model_card(reference: str, parameters_b: float, active_b: float) -> None:
    """All of them, and those without the experts a token is not routed to."""
    facts = model_facts(load_model(reference))
    assert facts.parameters / 1e9 == pytest.approx(parameters_b, abs=0.06)
    assert facts.active_parameters / 1e9 == pytest.approx(active_b, abs=0.06)


def test_quants_of_a_model_have_the_same_parameters_and_other_bytes() -> None:
    """Quantisation changes how many bytes hold them, not how many there are."""
    small, large = (model_facts(load_model(f"llama-3.3-70b:{quant}")) for quant in ("Q2_K", "F16"))
    assert small.parameters == large.parameters
    assert small.tensor_data_bytes < large.tensor_data_bytes / 5


def test_draft_layers_are_parameters_and_not_active() -> None:
    """A file with its MTP layer holds more and passes a token through as much."""
    plain, with_mtp = (model_facts(load_model(f"deepseek-v3.2{ending}:Q4_K_M")) for ending in ("", "-mtp"))
    assert with_mtp.parameters > plain.parameters
    assert with_mtp.active_parameters == plain.active_parameters


def test_facts_are_made_once_per_model() -> None:
    """The same object for the same model."""
    model = load_model("llama-3.2-1b:Q4_K_M")
    assert model_facts(model) is model_facts(model)
    assert model_facts(model).trained_context_tokens == 131_072
