"""The first candidate that fits is found as by looking at all of them."""

from dataclasses import replace

import pytest

from service.core.engines.llamacpp.candidates import Candidates
from service.core.engines.llamacpp.question import Question
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.engines.llamacpp.splits import first_fitting
from service.core.types import Rig, Workload
from tests.models import load_model
from tests.rigs import gpu, rig

MODEL, TOKENS = "gpt-oss-20b:MXFP4", 8192
ONE_CARD, TWO_CARDS = rig(gpu(gib=5, slug="only")), rig(gpu(gib=4, slug="first"), gpu(gib=2, slug="second"))


@pytest.mark.parametrize("cards", [ONE_CARD, TWO_CARDS], ids=["one card", "two cards"])
@pytest.mark.parametrize("n_ubatch", [512, 4096], ids=["small buffers", "large buffers"])
def test_the_lowest_number_that_fits_is_found(cards: Rig, n_ubatch: int) -> None:
    """No lower number of blocks without their experts fits, however large buffers are."""
    question = Question.of(load_model(MODEL), cards, Workload(context_tokens=TOKENS), may_balance=True)
    full = LlamaCppSettings(n_gpu_layers="all", n_batch=n_ubatch, n_ubatch=n_ubatch)
    candidates = Candidates(
        question=question, settings_of=lambda n: replace(full, n_cpu_moe=n), tokens_of=lambda _: TOKENS
    )
    found = candidates.least(1, question.hp.n_layer)
    numbers = range(1, question.hp.n_layer + 1)
    fitting = (n for n in numbers if first_fitting(question, replace(full, n_cpu_moe=n), TOKENS))
    assert found is not None
    assert found.fits
    assert found.settings.n_cpu_moe == next(fitting)


@pytest.mark.parametrize("gib", [0.01, 1.25], ids=["no room for a layer", "no room for buffers"])
def test_nothing_is_found_where_nothing_fits(gib: float) -> None:
    """Where the last candidate does not fit, none does."""
    question = Question.of(load_model(MODEL), rig(gpu(gib=gib, slug="tiny")), Workload(context_tokens=TOKENS))
    large = LlamaCppSettings(n_gpu_layers="all", n_batch=4096, n_ubatch=4096)
    candidates = Candidates(
        question=question, settings_of=lambda n: replace(large, n_cpu_moe=n), tokens_of=lambda _: TOKENS
    )
    assert candidates.least(1, 8) is None
