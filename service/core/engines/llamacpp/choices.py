"""What the planner chooses where a request leaves it open: split, context, layers and experts on the cards.

Every candidate is placed by the engine's own rules and judged by the verdict's; nothing is estimated.
"""

from dataclasses import replace
from functools import lru_cache
from typing import Final

from service.core.engines.llamacpp.candidates import Candidates
from service.core.engines.llamacpp.companions import ALONE, Companions
from service.core.engines.llamacpp.loaded import LoadedModel, load_model
from service.core.engines.llamacpp.question import Choice, Question
from service.core.engines.llamacpp.search.best import best_offload, best_on_cards, is_searched
from service.core.engines.llamacpp.search.judge import Judge
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.engines.llamacpp.splits import first_fitting
from service.core.memory import CONTEXT_STEP_TOKENS, largest_context_tokens
from service.core.speed import Assumptions
from service.core.types import Model, Rig, Workload

# What llama.cpp's own --fit keeps before it moves layers to the host (--fit-ctx 4096, common/common.h).
OFFLOAD_CONTEXT_TOKENS: Final = 4096

NO_ASSUMPTIONS: Final = Assumptions()


def choose(
    model: Model,
    rig: Rig,
    settings: LlamaCppSettings,
    workload: Workload,
    companions: Companions = ALONE,
    assumptions: Assumptions = NO_ASSUMPTIONS,
) -> Choice:
    """Fill every gap of `settings` and of the context.

    Everything on the cards if that fits, else the largest part of it, the rest on the host; else, or where the user
    fixed what would have to give, as asked. Over several cards the fastest way for this workload is looked for, and of
    ways that are as good the simplest is taken. Who fixes how many layers the cards take leaves the split to llama.cpp:
    no other one is looked for.
    Raises as `place` does.
    """
    if is_searched(rig, settings):
        return _searched(model, rig, settings, workload, companions, assumptions)
    choice = _chosen(model, rig, settings, workload.context_tokens, workload.parallel, companions)
    if workload == choice.question.workload:
        return choice
    return replace(choice, question=replace(choice.question, workload=workload))


def _question(
    model: Model, rig: Rig, settings: LlamaCppSettings, workload: Workload, companions: Companions
) -> Question:
    return Question.of(
        model,
        rig,
        workload,
        companions,
        may_balance=settings.n_gpu_layers is None,
        may_use_one_card=settings.n_gpu_layers is None and settings.split_mode is None,
    )


@lru_cache(maxsize=4096)
def _searched(
    model: Model,
    rig: Rig,
    settings: LlamaCppSettings,
    workload: Workload,
    companions: Companions,
    assumptions: Assumptions,
) -> Choice:
    """The best choice for a workload where the split over several cards is open."""
    question = _question(model, rig, settings, workload, companions)
    judge = Judge(question=question, assumptions=assumptions)
    full = replace(settings, n_gpu_layers="all")
    if workload.context_tokens is None:
        longest = _largest_fitting(question, full)
        tokens = None if longest is None else longest.context_tokens
    else:
        longest, tokens = None, workload.context_tokens
    if tokens is not None:
        found = best_on_cards(judge, settings, tokens) or longest or first_fitting(question, full, tokens)
        if found is not None:
            return found
    return _with_host(judge, settings)


def _with_host(judge: Judge, settings: LlamaCppSettings) -> Choice:
    """The best choice where the cards do not hold everything, at the context asked for or the most for what remains."""
    question, asked = judge.question, judge.question.workload.context_tokens
    ceiling = question.ceiling_tokens(settings)
    least = min(OFFLOAD_CONTEXT_TOKENS, ceiling) if asked is None else asked
    offloaded = best_offload(judge, settings, least) or _offloaded(question, settings, least)
    if offloaded is None:
        return question.place(replace(settings, n_gpu_layers="all"), least)
    if asked is None:
        return question.place(offloaded.settings, max(max_context_tokens(offloaded), least))
    return offloaded


@lru_cache(maxsize=1024)
def _chosen(
    model: Model,
    rig: Rig,
    settings: LlamaCppSettings,
    context_tokens: int | None,
    parallel: int,
    companions: Companions,
) -> Choice:
    """The choice for a context and a number of streams where there is one way to split, whatever prompts are like."""
    question = _question(
        model, rig, settings, Workload(context_tokens=context_tokens, parallel=parallel), companions
    )  # fmt: skip
    if settings.n_gpu_layers is not None and context_tokens is not None:
        # nothing could give where it does not fit
        return question.place(settings, context_tokens)
    full = settings if settings.n_gpu_layers is not None else replace(settings, n_gpu_layers="all")
    found = (
        _largest_fitting(question, full) if context_tokens is None else first_fitting(question, full, context_tokens)
    )
    if found is not None:
        return found
    ceiling = question.ceiling_tokens(settings)
    least = min(OFFLOAD_CONTEXT_TOKENS, ceiling) if context_tokens is None else context_tokens
    offloaded = _offloaded(question, settings, least) if rig.gpus else None
    if offloaded is None:
        return question.place(full, least)
    if context_tokens is None:
        return question.place(offloaded.settings, max(max_context_tokens(offloaded), least))
    return offloaded


def max_context_tokens(choice: Choice) -> int:
    """Largest context that fits with the choices made, up to the ceiling; 0 where none does."""
    loaded = choice.placement.loaded if choice.question.companions == ALONE else None
    return _longest(choice.question, choice.settings, loaded)


def largest_context(question: Question, settings: LlamaCppSettings) -> int:
    """Largest context that fits with these settings, up to the ceiling; 0 where none does."""
    loaded = load_model(question.model, question.rig, settings) if question.companions == ALONE else None
    return _longest(question, settings, loaded)


def _longest(question: Question, settings: LlamaCppSettings, loaded: LoadedModel | None) -> int:
    """The same; alone, it is the same for whatever shares lead to the same slots, and remembered there."""
    ceiling_tokens, parallel = question.ceiling_tokens(settings), question.workload.parallel
    found = None if loaded is None else loaded.longest.get((parallel, ceiling_tokens))
    if found is None:
        found = _largest_context(
            question.model, question.rig, settings, parallel, ceiling_tokens, question.companions
        )  # fmt: skip
        if loaded is not None:
            loaded.longest[parallel, ceiling_tokens] = found
    return found


@lru_cache(maxsize=4096)
def _largest_context(
    model: Model, rig: Rig, settings: LlamaCppSettings, parallel: int, ceiling_tokens: int, companions: Companions
) -> int:
    """Largest context that fits, whatever context was asked for: it is the same for all of them."""
    question = Question.of(model, rig, Workload(parallel=parallel), companions)
    return largest_context_tokens(
        lambda tokens: question.place(settings, tokens).needs,
        ceiling_tokens=ceiling_tokens,
        least_needs_at=lambda tokens: question.hold(settings, tokens).needs,
    )


def _largest_fitting(question: Question, settings: LlamaCppSettings) -> Choice | None:
    """The split and context with the most tokens, everything else as given."""
    top = question.ceiling_tokens(settings) // CONTEXT_STEP_TOKENS
    default = largest_context(question, settings)
    candidates = Candidates(
        question=question,
        settings_of=lambda _: settings,
        tokens_of=lambda fewer: CONTEXT_STEP_TOKENS * (top - fewer),
    )
    found = candidates.least(0, top - default // CONTEXT_STEP_TOKENS - 1)
    return found if found is not None or not default else question.place(settings, default)


def _offloaded(question: Question, settings: LlamaCppSettings, context_tokens: int) -> Choice | None:
    """The largest part on the cards that fits; None where the user fixed how much, or nothing fits."""
    if settings.n_gpu_layers is not None:
        return None
    may_move_experts = question.hp.n_expert > 0 and settings.n_cpu_moe is None and not settings.override_tensor
    blocks = question.hp.n_layer_all
    if may_move_experts:
        all_layers = replace(settings, n_gpu_layers="all")
        by_experts = Candidates(
            question=question,
            settings_of=lambda n: replace(all_layers, n_cpu_moe=n),
            tokens_of=lambda _: context_tokens,
        )
        moved = by_experts.least(1, blocks)
        if moved is not None:
            return moved
        settings = replace(settings, n_cpu_moe=blocks)
    by_layers = Candidates(
        question=question,
        settings_of=lambda left: replace(settings, n_gpu_layers=blocks + 1 - left),
        tokens_of=lambda _: context_tokens,
    )
    return by_layers.least(1, blocks + 1)
