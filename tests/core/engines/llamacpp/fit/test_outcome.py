"""What the fit settles on, against llama.cpp's own."""

import pytest

from service.core.engines.llamacpp.fit import fit
from service.core.engines.llamacpp.settings import LlamaCppSettings, OverrideTensor
from service.core.problems import InvalidRequest, Unsupported
from service.core.types import Rig, Workload
from tests.fit_rows import FitRow, fit_probe_rows, fit_rows
from tests.models import load_model
from tests.rigs import gpu, rig

LLAMA_8B = "llama-3.1-8b:Q4_K_M"
TIGHT = rig(gpu("rpc", 8), gpu("rpc", 4))
OPEN = Workload()
RERUN = {row.id: row for row in fit_probe_rows() if row.id.startswith("fit-0") or row.id.startswith("fit-1")}
GOLDEN = [RERUN.get(row.id, row) for row in fit_rows()]
PROBED = [row for row in fit_probe_rows() if row.id not in RERUN]


def differing(rows: list[FitRow], model: str) -> list[str]:
    """Rows of a model that come out otherwise."""
    wrong = []
    for row in rows:
        if row.model == model:
            found = row.fitted()
            if (found.arguments, found.outcome == "failed") != (row.arguments, row.failed):
                wrong.append(f"{row.id} {row.config}: {' '.join(found.arguments)} for {' '.join(row.arguments)}")
    return wrong


@pytest.mark.parametrize("model", sorted({row.model for row in GOLDEN}))
def test_every_golden_row_settles_as_llamacpp_does(model: str) -> None:
    """Context, layers, shares and overrides are identical; where a row was taken with another header, to a rerun."""
    assert differing(GOLDEN, model) == []


@pytest.mark.parametrize("model", sorted({row.model for row in PROBED}))
def test_every_probed_row_settles_as_llamacpp_does(model: str) -> None:
    """The same for unusual questions, failures included."""
    assert differing(PROBED, model) == []


def test_nearly_all_golden_rows_are_met_as_they_were_recorded() -> None:
    """At least 95 % of the argument lists and 98 % of the contexts; the rest are those asked again."""
    found = [(row, RERUN.get(row.id, row).arguments) for row in fit_rows()]
    same = sum(row.arguments == arguments for row, arguments in found)
    same_context = sum(row.arguments[:2] == arguments[:2] for row, arguments in found)
    assert len(found) == 582
    assert same >= 0.95 * len(found)
    assert same_context >= 0.98 * len(found)


@pytest.mark.parametrize(
    ("settings", "failure"),
    [
        (LlamaCppSettings(n_gpu_layers="all"), "n_gpu_layers already set by user to -2, abort"),
        (LlamaCppSettings(n_gpu_layers=40), "n_gpu_layers already set by user to 40, abort"),
        (LlamaCppSettings(tensor_split=(1.0, 1.0)), "model_params::tensor_split already set by user, abort"),
        (
            LlamaCppSettings(override_tensor=(OverrideTensor(pattern="ffn", buffer_type="CPU"),)),
            "model_params::tensor_buft_overrides already set by user, abort",
        ),
        (LlamaCppSettings(n_cpu_moe=1), "model_params::tensor_buft_overrides already set by user, abort"),
    ],
    ids=str,
)
def test_what_the_user_fixed_makes_the_fit_give_up_after_the_context(settings: LlamaCppSettings, failure: str) -> None:
    """The context is reduced all the same, and stays so; everything else stays as it was stated."""
    found = fit(load_model("llama-3.3-70b:Q4_K_M"), TIGHT, settings, OPEN)
    assert (found.outcome, found.failure) == ("failed", failure)
    assert found.context_tokens < found.context.start_tokens == 131_072
    assert found.settings.tensor_split == settings.tensor_split
    assert found.settings.override_tensor == settings.override_tensor


def test_on_one_card_less_context_may_be_all_there_is_to_do() -> None:
    """What the user fixed does not matter then."""
    found = fit(load_model(LLAMA_8B), rig(gpu("rpc", 8)), LlamaCppSettings(n_gpu_layers="all"), OPEN)
    assert (found.outcome, found.failure) == ("context", None)
    assert 4096 < found.context_tokens < 131_072


def test_split_mode_tensor_has_no_fit() -> None:
    """llama.cpp says that it is not implemented."""
    with pytest.raises(Unsupported, match="not implemented for split mode tensor"):
        fit(load_model(LLAMA_8B), TIGHT, LlamaCppSettings(split_mode="tensor"), OPEN)


def test_builds_before_december_2025_have_no_fit() -> None:
    """A date before --fit came is refused."""
    with pytest.raises(Unsupported, match="December 2025"):
        fit(load_model(LLAMA_8B), TIGHT, LlamaCppSettings(date="2025-10"), OPEN)


def test_a_host_of_unknown_size_cannot_be_fitted_to() -> None:
    """Without cards the fit compares with main memory."""
    with pytest.raises(InvalidRequest, match="ram_bytes"):
        fit(load_model(LLAMA_8B), Rig(gpus=()), LlamaCppSettings(), OPEN)


def test_no_layers_on_the_cards_stop_llamacpp_by_a_division() -> None:
    """With -ngl 0, several cards below the margin and an open context, llama.cpp divides by the number of layers."""
    with pytest.raises(Unsupported, match="divides by the number of layers"):
        fit(load_model(LLAMA_8B), rig(gpu("rpc", 0.1), gpu("rpc", 0.1)), LlamaCppSettings(n_gpu_layers=0), OPEN)


def test_draft_layers_of_the_file_are_not_counted() -> None:
    """A model with a draft layer gets one slot less than the loader has, as llama.cpp gives it."""
    model = load_model("glm-4.5-air:Q4_K_M")
    found = fit(model, rig(gpu("rpc", 24), gpu("rpc", 24)), LlamaCppSettings(), Workload(context_tokens=8192))
    assert found.question.hp.n_layer_nextn == 1
    assert found.settings.n_gpu_layers == found.question.n_layer + 1 == found.question.hp.n_layer_all
