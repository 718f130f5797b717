"""Runners-up: other ways to run a model that a choice can be compared with, placed as exactly as the choice.

Source: divisions by free memory are llama.cpp's own, src/llama-model.cpp:1556-1614; the others are what guides advise
(llama.cpp in llama-cpp-python 0.3.36).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf
from typing import Final, Literal, TypeAlias

from service.core.engines.llamacpp.choices import choose, largest_context
from service.core.engines.llamacpp.companions import ALONE, Companions
from service.core.engines.llamacpp.question import Choice, Question
from service.core.engines.llamacpp.refusals import MAX_SHARES
from service.core.engines.llamacpp.search.best import is_searched
from service.core.engines.llamacpp.search.joint_cards import bandwidth_shares, fastest_joint
from service.core.engines.llamacpp.search.judge import LEAST_GAIN, Judge
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.engines.llamacpp.splits import may_fit
from service.core.problems import PlanProblem
from service.core.speed import Assumptions
from service.core.types import Gpu, Model, Rig, Workload

RivalKind: TypeAlias = Literal[
    "by_free_memory", "by_bandwidth", "one_card", "together", "smaller_cache", "freed", "planned"
]

SMALLER_CACHE: Final = "q8_0"
"""The type that halves a cache at a loss of quality that is seldom noticed."""

_PLACES: Final = ("split_mode", "tensor_split", "devices", "n_gpu_layers", "n_cpu_moe", "override_tensor")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """Another choice for the same question; freed: what was stated and is left open in it."""

    kind: RivalKind
    choice: Choice
    freed: tuple[str, ...] = ()


def rivals_of(
    choice: Choice, asked: LlamaCppSettings, workload: Workload, assumptions: Assumptions
) -> tuple[Rival, ...]:  # fmt: skip
    """What can be held against the choice for a question; nothing where everything is stated and fits.

    With the split over several cards open: llama.cpp's own division, one by bandwidth, the fastest card alone, all
    cards together. With a part of it stated: the choice without that, where it is better. Where the cards do not hold
    everything: a smaller cache, if that is enough.
    """
    if asked.n_gpu_layers is not None and workload.context_tokens is not None and on_cards(choice):
        return ()
    question = choice.question
    return _rivals(question.model, question.rig, asked, workload, question.companions, assumptions)


@lru_cache(maxsize=4096)
def _rivals(
    model: Model,
    rig: Rig,
    asked: LlamaCppSettings,
    workload: Workload,
    companions: Companions,
    assumptions: Assumptions,
) -> tuple[Rival, ...]:
    choice = choose(model, rig, asked, workload, companions, assumptions)
    question = choice.question
    if question.workload != workload:
        question = replace(question, workload=workload)
    judge = Judge(question=question, assumptions=assumptions)
    found = [*_other_splits(judge, asked, choice), *_freed(judge, asked, choice), *_smaller_cache(judge, asked, choice)]
    by_settings = {rival.choice.settings: rival for rival in reversed(found)}
    by_settings.pop(choice.settings, None)
    return tuple(reversed(by_settings.values()))


def planned(choice: Choice, asked: LlamaCppSettings, assumptions: Assumptions) -> tuple[Rival, ...]:
    """What the planner chooses at the context of `choice`, which is not its own; nothing where that is the same."""
    question = choice.question
    workload = replace(question.workload, context_tokens=choice.context_tokens)
    own = choose(question.model, question.rig, asked, workload, question.companions, assumptions)
    return () if own.settings == choice.settings else (Rival(kind="planned", choice=own),)


def on_cards(choice: Choice) -> bool:
    """Whether a choice fits with every layer, and all of it, on the cards."""
    whole = choice.placement.slots.fully_offloaded and choice.settings.kv_offload
    return choice.fits and whole and not choice.settings.n_cpu_moe and not choice.settings.override_tensor


def _other_splits(judge: Judge, asked: LlamaCppSettings, choice: Choice) -> Iterator[Rival]:
    question, tokens = judge.question, choice.context_tokens
    if not is_searched(question.rig, asked) or not on_cards(choice):
        return
    full = replace(asked, n_gpu_layers="all")
    yield Rival(kind="by_free_memory", choice=question.place(full, tokens))
    order = question.hold(full, tokens).placement.device_order
    cards = [question.rig.gpus[position] for position in order]
    if len(set(cards)) > 1 and len(cards) <= MAX_SHARES and all(card.bandwidth_bytes_per_s for card in cards):
        by_bandwidth = replace(full, tensor_split=bandwidth_shares(cards))
        yield Rival(kind="by_bandwidth", choice=question.place(by_bandwidth, tokens))
    alone = _fastest_card(judge, full, tokens, cards)
    if alone is not None:
        yield Rival(kind="one_card", choice=alone)
    together = fastest_joint(judge, full, tokens)
    if together is not None:
        yield Rival(kind="together", choice=question.place(together, tokens))


def _fastest_card(judge: Judge, full: LlamaCppSettings, tokens: int, cards: Sequence[Gpu]) -> Choice | None:
    """The fastest card that holds everything by itself; of equal ones the first, unless another model lies there."""
    question = judge.question
    if full.split_mode is not None or full.names_cards:
        return None
    companions = question.companions != ALONE
    different = [index for index, card in enumerate(cards) if companions or card not in cards[:index]]
    alone = [replace(full, split_mode="none", main_gpu=index) for index in different]
    held = [each for each in alone if question.hold(each, tokens).fits]
    for each in sorted(held, key=lambda each: judge.request_s(each, tokens) or inf):
        choice = question.place(each, tokens)
        if choice.fits:
            return choice
    return None


def _freed(judge: Judge, asked: LlamaCppSettings, choice: Choice) -> Iterator[Rival]:
    """The choice without what was stated about places; looked for where layers are open, or what is stated fails."""
    plain = LlamaCppSettings()
    freed = tuple(field for field in _PLACES if getattr(asked, field) != getattr(plain, field))
    if not freed or not judge.question.rig.gpus or (asked.n_gpu_layers is not None and choice.fits):
        return
    question = judge.question
    opened = replace(asked, main_gpu=0, **{field: getattr(plain, field) for field in freed})
    other = choose(
        question.model, question.rig, opened, question.workload, question.companions, judge.assumptions
    )  # fmt: skip
    if _is_better(judge, other, choice):
        yield Rival(kind="freed", choice=other, freed=freed)


def _is_better(judge: Judge, other: Choice, choice: Choice) -> bool:
    """Whether a choice fits where the other does not, or is faster by more than noise."""
    if other.fits != choice.fits or not other.fits:
        return other.fits and not choice.fits
    other_s, choice_s = judge.seconds_of(other), judge.seconds_of(choice)
    return other_s is not None and choice_s is not None and other_s * LEAST_GAIN < choice_s


def _smaller_cache(judge: Judge, asked: LlamaCppSettings, choice: Choice) -> Iterator[Rival]:
    """The same with a cache of half the size, where it takes that to hold everything, or more context."""
    question = judge.question
    if asked.cache_type_k or asked.cache_type_v or asked.flash_attn is False or not question.rig.gpus:
        return
    whole = on_cards(choice)
    if whole and question.workload.context_tokens is not None:
        return
    try:
        found = (
            _longer(question, _smaller(choice.settings), choice)
            if whole
            else _with_room(question, _smaller(asked), choice, judge.assumptions)
        )
    except PlanProblem:
        return
    if found is not None:
        yield Rival(kind="smaller_cache", choice=found)


def _smaller(settings: LlamaCppSettings) -> LlamaCppSettings:
    return replace(settings, cache_type_k=SMALLER_CACHE, cache_type_v=SMALLER_CACHE)


def _with_room(
    question: Question, smaller: LlamaCppSettings, choice: Choice, assumptions: Assumptions
) -> Choice | None:  # fmt: skip
    """The choice with a smaller cache, where that lies on the cards whole."""
    tokens = choice.context_tokens
    full = replace(smaller, n_gpu_layers="all" if smaller.n_gpu_layers is None else smaller.n_gpu_layers)
    searched = replace(question, may_balance=True, may_use_one_card=smaller.split_mode is None)
    if smaller.n_cpu_moe or smaller.override_tensor or not may_fit(searched, full, tokens):
        return None
    workload = replace(question.workload, context_tokens=tokens)
    found = choose(question.model, question.rig, smaller, workload, question.companions, assumptions)
    return found if on_cards(found) else None


def _longer(question: Question, smaller: LlamaCppSettings, choice: Choice) -> Choice | None:
    """The same split at the largest context of a smaller cache, where the context ends before training."""
    if choice.context_tokens >= question.ceiling_tokens(smaller):
        return None
    longest = largest_context(question, smaller)
    return question.place(smaller, longest) if longest > choice.context_tokens else None
