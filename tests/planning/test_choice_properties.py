"""What holds for every choice: more hardware never hurts, more context never helps, one question has one answer."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from service.core.engines.llamacpp.choices import choose
from service.core.engines.llamacpp.question import Choice
from service.core.engines.llamacpp.search.judge import TIE_FRACTION, Judge
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.speed import Assumptions
from service.core.types import Gpu, Rig, Workload
from tests.models import load_model
from tests.rigs import gpu, rig

MODELS = st.sampled_from(["llama-3.2-1b:Q4_K_M", "gemma-3-1b:Q4_K_M", "gpt-oss-20b:MXFP4"])
CARDS = st.builds(
    lambda gib, bandwidth, flops: gpu(
        gib=gib, slug=f"{gib}-{bandwidth}", bandwidth_bytes_per_s=bandwidth * 1e9, fp32_flops=flops * 1e12
    ),
    st.sampled_from([0.4, 0.7, 1.2, 4, 7, 14, 24]),
    st.sampled_from([200, 400, 900, 1800]),
    st.sampled_from([15, 60]),
)
CONTEXTS = st.sampled_from([512, 4096, 20_000])


def chosen(model: str, cards: list[Gpu], context_tokens: int) -> Choice:
    return choose(load_model(model), rig(*cards), LlamaCppSettings(), Workload(context_tokens=context_tokens))


def whole(choice: Choice) -> bool:
    """Whether everything fits on the cards."""
    return choice.fits and choice.placement.slots.fully_offloaded and not choice.settings.n_cpu_moe


def rank(choice: Choice) -> int:
    """Everything on the cards, a part on the host, or not at all."""
    return 2 if whole(choice) else 1 if choice.fits else 0


def seconds(choice: Choice) -> float:
    found = Judge(question=choice.question, assumptions=Assumptions()).seconds_of(choice)
    assert found is not None
    return found


def assert_no_worse(after: Choice, before: Choice) -> None:
    """As much fits, and, with everything on the cards, a request takes no longer than a tie allows."""
    assert rank(after) >= rank(before)
    if rank(before) == rank(after) == 2:
        assert seconds(after) <= seconds(before) * (1 + TIE_FRACTION) ** 2


@settings(max_examples=30, deadline=None)
@given(MODELS, st.lists(CARDS, min_size=1, max_size=3), CARDS, CONTEXTS, st.data())
def test_one_more_card_is_never_worse(
    model: str, cards: list[Gpu], added: Gpu, context_tokens: int, data: st.DataObject
) -> None:
    """Wherever it is put in: it can be left out."""
    position = data.draw(st.integers(0, len(cards)))
    before = chosen(model, cards, context_tokens)
    assert_no_worse(chosen(model, [*cards[:position], added, *cards[position:]], context_tokens), before)


@settings(max_examples=30, deadline=None)
@given(MODELS, st.lists(CARDS, min_size=1, max_size=3), CONTEXTS, st.data())
def test_more_memory_or_bandwidth_is_never_worse(
    model: str, cards: list[Gpu], context_tokens: int, data: st.DataObject
) -> None:
    """Of any card."""
    position = data.draw(st.integers(0, len(cards) - 1))
    larger = data.draw(st.sampled_from([1.0, 1.2, 2.0]))
    faster = data.draw(st.sampled_from([1.0, 1.2, 2.0]))
    card = cards[position]
    better = replace(
        card,
        slug="better",
        total_bytes=int(card.total_bytes * larger),
        usable_bytes=int(card.usable_bytes * larger),
        bandwidth_bytes_per_s=(card.bandwidth_bytes_per_s or 0.0) * faster,
    )
    before = chosen(model, cards, context_tokens)
    assert_no_worse(chosen(model, [*cards[:position], better, *cards[position + 1 :]], context_tokens), before)


@settings(max_examples=30, deadline=None)
@given(MODELS, st.lists(CARDS, min_size=1, max_size=3), CONTEXTS, st.integers(2, 6))
def test_more_context_is_never_faster(model: str, cards: list[Gpu], context_tokens: int, factor: int) -> None:
    """The same requests in a longer context take as long or longer, and fit no better."""
    assert_no_worse(chosen(model, cards, context_tokens), chosen(model, cards, factor * context_tokens))


@settings(max_examples=15, deadline=None)
@given(MODELS, st.lists(CARDS, min_size=2, max_size=3), CONTEXTS)
def test_the_same_question_has_the_same_answer(model: str, cards: list[Gpu], context_tokens: int) -> None:
    """Also for equal cards that are other objects, which nothing was remembered of."""
    again = Rig(gpus=tuple(replace(card, usable_basis="again") for card in cards))
    first = chosen(model, cards, context_tokens)
    second = choose(load_model(model), again, LlamaCppSettings(), Workload(context_tokens=context_tokens))
    assert first.settings == second.settings
    assert first.context_tokens == second.context_tokens
