"""Speculative steps: what comes of them, what they take, and when they lose."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.timing.constants import CALIBRATION
from service.core.timing.speculation import (
    Drafting,
    DraftPass,
    Speculation,
    acceptance_for,
    best_tokens,
    speculate,
    tokens_per_step,
)
from service.core.timing.work import Exchange, Weights, Work
from tests.core.timing.machines import AMPERE, PLAIN, A, part, rates, work

CUDA = CALIBRATION.backends["cuda"]
SMALL = Drafting(
    passes=(
        DraftPass(what="proposes", work=work(part(dense_bytes=10**9)), per_token=True),
        DraftPass(what="follows", work=work(part(dense_bytes=10**9)), per_token=False),
    )
)
probabilities = st.floats(0, 1)
counts = st.integers(0, 16)


def step_of(target: Work, drafting: Drafting = SMALL, tokens: int = 3, acceptance: float = 0.8) -> Speculation:
    """A step on cards whose rates are known."""
    found = speculate(target, drafting, rates(target), PLAIN, tokens=tokens, acceptance_fraction=acceptance)
    assert found is not None
    return found


def test_tokens_of_a_step() -> None:
    """Accepted in a row, and one of the model itself: 1 + 0.8 + 0.64 + 0.512."""
    assert tokens_per_step(0.8, 3) == pytest.approx(2.952)
    assert tokens_per_step(0, 5) == 1
    assert tokens_per_step(1, 5) == 6


@given(probabilities, counts)
def test_acceptance_is_found_back(acceptance: float, tokens: int) -> None:
    """The inverse gives an acceptance with as many tokens."""
    wanted = tokens_per_step(acceptance, tokens)
    found = acceptance_for(wanted, tokens)
    assert found is not None
    assert tokens_per_step(found, tokens) == pytest.approx(wanted)


def test_no_acceptance_yields_more_than_all() -> None:
    """Of three proposed tokens at most four come."""
    assert acceptance_for(4.01, 3) is None


@given(counts)
def test_without_acceptance_a_draft_is_never_faster(tokens: int) -> None:
    """Every token costs the drafts as well."""
    assert step_of(work(part()), tokens=tokens, acceptance=0).gain <= 1


@given(probabilities, probabilities, counts)
def test_more_acceptance_is_never_slower(one: float, other: float, tokens: int) -> None:
    """A token takes less the more is accepted."""
    low, high = sorted((one, other))
    asked = work(part())
    assert (
        step_of(asked, tokens=tokens, acceptance=high).token_s <= step_of(asked, tokens=tokens, acceptance=low).token_s
    )


@given(probabilities, st.integers(1, 8))
def test_break_even_divides_gain_from_loss(acceptance: float, tokens: int) -> None:
    """Above it a draft gains, below it loses."""
    found = step_of(work(part()), tokens=tokens, acceptance=acceptance)
    even = found.break_even_fraction
    assert even is not None
    assert (found.gain >= 1) is (acceptance >= even) or found.gain == pytest.approx(1, abs=1e-6)


def test_a_draft_as_large_as_its_target_never_pays() -> None:
    """Its passes take longer than the tokens they may yield."""
    same = Drafting(passes=(DraftPass(what="proposes", work=work(part()), per_token=True),))
    found = step_of(work(part()), same, acceptance=1.0)
    assert found.break_even_fraction is None
    assert found.gain < 1


def test_proposing_nothing_changes_nothing() -> None:
    """A step without drafts is the model's own."""
    found = step_of(work(part()), tokens=0)
    assert (found.gain, found.tokens_per_step, found.drafts) == (1, 1, ())


def test_verifying_reads_the_weights_and_the_cache_once() -> None:
    """Only arithmetic is added: attention's own, and every vector's."""
    asked = work(part(cache_bytes=10**9, attention_flops=1e6))
    plain, verify = step_of(asked, tokens=0).verify.cards[0], step_of(asked).verify.cards[0]
    assert verify.reading_s == plain.reading_s
    assert verify.attention_s == plain.attention_s
    vector = AMPERE.fp32_flops or 0
    assert verify.batch_s == pytest.approx(3 * 4 * 10**10 / (vector * CUDA.vector_fraction))


def test_more_than_eight_tokens_take_no_longer_than_eight_vectors() -> None:
    """Beyond them kernels for matrices take over, until their own arithmetic takes longer."""
    asked = work(part())
    seven, nine, many = (step_of(asked, tokens=tokens).verify.cards[0].batch_s for tokens in (7, 9, 512))
    assert nine == seven
    assert many > seven


def test_verifying_uses_more_of_the_experts() -> None:
    """Four tokens choose more experts than one, which a dense model has no such cost for."""
    mixture = Weights(used_fraction=1 / 16, dense_flops_per_byte=4.0, expert_flops_per_byte=4.0)
    sparse = work(part(dense_bytes=0, expert_bytes=16 * 10**10), weights=mixture)
    dense = work(part(dense_bytes=10**10))
    assert step_of(sparse).plain_s == pytest.approx(step_of(dense).plain_s)
    assert step_of(sparse).gain < 0.6 * step_of(dense).gain


def test_cards_that_share_layers_exchange_all_tokens() -> None:
    """A verified step sends as many hidden states as tokens."""
    meetings = Exchange(reductions=160, hidden_state_bytes=32_768)
    joint = work(part(), part(), arrangement="tensor", exchange=meetings)
    alone = Drafting(passes=())
    assert step_of(joint, alone).verify.meetings_s > step_of(joint, alone, tokens=0).verify.meetings_s


def test_draft_layers_propose_no_more_than_there_are() -> None:
    """Three layers propose three tokens, whatever is asked for."""
    assert step_of(work(part()), replace(SMALL, most_tokens=3), tokens=8).tokens == 3


def test_nothing_is_said_without_a_rate_of_arithmetic() -> None:
    """A card whose arithmetic is not known gives no step."""
    unknown = work(part(replace(AMPERE, fp32_flops=None)))
    assert speculate(unknown, SMALL, rates(unknown), PLAIN, tokens=3, acceptance_fraction=0.8) is None


def test_what_is_assumed_holds_for_drafts_too() -> None:
    """Under assumptions A a pass over 1 GB takes 1.35 + 0.74 ms and what every pass costs."""
    asked = work(part())
    found = speculate(asked, SMALL, rates(asked, A), A, tokens=2, acceptance_fraction=0.8)
    assert found is not None
    once_s = 1e9 / (0.79 * 936.2e9) + 0.00074 + CUDA.draft_pass_s
    assert found.drafts[0].s == pytest.approx(2 * once_s)


def test_the_best_number_of_tokens_grows_with_acceptance() -> None:
    """Deep drafts pay where they are accepted."""

    def best(acceptance: float) -> int:
        found = best_tokens(lambda tokens: step_of(work(part()), tokens=tokens, acceptance=acceptance))
        assert found is not None
        return found.tokens

    assert best(0.3) < best(0.8) < best(0.97)
