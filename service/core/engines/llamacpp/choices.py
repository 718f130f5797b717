"""What the planner chooses where a request leaves it open: split, context, layers and experts on the cards.

Every candidate is placed by the engine's own rules and judged by the verdict's; nothing is estimated.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Final

from service.core.engines.llamacpp.balanced_split import Room, balanced_slots
from service.core.engines.llamacpp.question import Choice, Question
from service.core.engines.llamacpp.range_sizes import range_sizes
from service.core.engines.llamacpp.refusals import MAX_SHARES
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.memory import CONTEXT_STEP_TOKENS, largest_context_tokens
from service.core.types import Model, Rig, Workload

# What llama.cpp's own --fit keeps before it moves layers to the host (--fit-ctx 4096, common/common.h).
OFFLOAD_CONTEXT_TOKENS: Final = 4096
BALANCING_ROUNDS: Final = 4


def choose(model: Model, rig: Rig, settings: LlamaCppSettings, workload: Workload) -> Choice:
    """Fill every gap of `settings` and of the context.

    Everything on the cards if that fits, with llama.cpp's own split, else a balanced one, else on one card alone; else
    the largest part of it, the rest on the host; else, or where the user fixed what would have to give, as asked. Who
    fixes how many layers the cards take leaves the split to llama.cpp: no other one is looked for.
    Raises as `place` does.
    """
    choice = _chosen(model, rig, settings, workload.context_tokens, workload.parallel)
    return replace(choice, question=replace(choice.question, workload=workload))


@lru_cache(maxsize=1024)
def _chosen(
    model: Model, rig: Rig, settings: LlamaCppSettings, context_tokens: int | None, parallel: int
) -> Choice:  # fmt: skip
    """The choice for a context and a number of streams; how long prompts and answers are places nothing."""
    workload = Workload(context_tokens=context_tokens, parallel=parallel)
    question = Question.of(
        model,
        rig,
        workload,
        may_balance=settings.n_gpu_layers is None,
        may_use_one_card=settings.n_gpu_layers is None and settings.split_mode is None,
    )
    settings = replace(settings, split_mode=settings.split_mode or "layer")
    full = settings if settings.n_gpu_layers is not None else replace(settings, n_gpu_layers="all")
    found = (
        _largest_fitting(question, full) if context_tokens is None else _first_fitting(question, full, context_tokens)
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
    question = choice.question
    return _largest_context(
        question.model,
        question.rig,
        choice.settings,
        question.workload.parallel,
        question.ceiling_tokens(choice.settings),
    )


@lru_cache(maxsize=1024)
def _largest_context(
    model: Model, rig: Rig, settings: LlamaCppSettings, parallel: int, ceiling_tokens: int
) -> int:  # fmt: skip
    """Largest context that fits, whatever context was asked for: it is the same for all of them."""
    question = Question.of(model, rig, Workload(parallel=parallel))
    return largest_context_tokens(
        lambda tokens: question.place(settings, tokens).needs, ceiling_tokens=ceiling_tokens
    )  # fmt: skip


def _first_fitting(question: Question, settings: LlamaCppSettings, context_tokens: int) -> Choice | None:
    """The first split that fits at this context."""
    return next((choice for choice in _splits(question, settings, context_tokens) if choice.fits), None)


def _largest_fitting(question: Question, settings: LlamaCppSettings) -> Choice | None:
    """The split and context with the most tokens, everything else as given."""
    top = question.ceiling_tokens(settings) // CONTEXT_STEP_TOKENS
    best = _first_fitting(question, settings, CONTEXT_STEP_TOKENS * top)
    if best is not None:
        return best
    default = _largest_context(
        question.model, question.rig, settings, question.workload.parallel, CONTEXT_STEP_TOKENS * top
    )
    if default:
        best = question.place(settings, default)
    low, high = default // CONTEXT_STEP_TOKENS, top
    while high - low > 1:
        middle = (low + high) // 2
        found = _first_fitting(question, settings, CONTEXT_STEP_TOKENS * middle)
        if found is None:
            high = middle
        else:
            low, best = middle, found
    return best


def _offloaded(question: Question, settings: LlamaCppSettings, context_tokens: int) -> Choice | None:
    """The largest part on the cards that fits; None where the user fixed how much, or nothing fits."""
    if settings.n_gpu_layers is not None:
        return None
    may_move_experts = question.hp.n_expert > 0 and settings.n_cpu_moe is None and not settings.override_tensor
    blocks = question.hp.n_layer_all
    if may_move_experts:
        moved = _least(
            lambda n: _first_fitting(question, replace(settings, n_gpu_layers="all", n_cpu_moe=n), context_tokens),
            1,
            blocks,
        )
        if moved is not None:
            return moved
        settings = replace(settings, n_cpu_moe=blocks)
    return _least(
        lambda left: _first_fitting(question, replace(settings, n_gpu_layers=blocks + 1 - left), context_tokens),
        1,
        blocks + 1,
    )


def _least(fitting: Callable[[int], Choice | None], first: int, last: int) -> Choice | None:
    """The choice of the smallest number for which one fits, where more never fits worse; None where none does."""
    best = fitting(last)
    if best is None:
        return None
    low, high = first - 1, last
    while high - low > 1:
        middle = (low + high) // 2
        found = fitting(middle)
        if found is None:
            low = middle
        else:
            high, best = middle, found
    return best


def _splits(question: Question, settings: LlamaCppSettings, context_tokens: int) -> Iterator[Choice]:
    """Ways to divide the model over the cards, llama.cpp's own first; only one where the user fixed it."""
    default = question.place(settings, context_tokens)
    yield default
    cards = len(default.placement.device_order)
    if default.fits or cards < 2 or settings.split_mode != "layer" or settings.tensor_split is not None:
        return
    if question.may_balance and cards <= MAX_SHARES:
        yield from _balanced(question, default)
    if question.may_use_one_card and settings.n_gpu_layers == "all":
        yield from _on_one_card(question, default)


def _on_one_card(question: Question, default: Choice) -> Iterator[Choice]:
    """Everything on one card alone, on each kind of card once; none that the weights alone would overflow."""
    weights_bytes = sum(device.weights_bytes for device in default.placement.devices)
    order = default.placement.device_order
    kinds = {question.rig.gpus[position]: index for index, position in reversed(list(enumerate(order)))}
    for gpu, index in reversed(kinds.items()):
        if gpu.usable_bytes >= weights_bytes:
            alone = replace(default.settings, split_mode="none", main_gpu=index)
            yield question.place(alone, default.context_tokens)


def _balanced(question: Question, default: Choice) -> Iterator[Choice]:
    """Splits that fill all cards alike; compute buffers depend on the split, so that it is corrected a few times."""
    order = default.placement.device_order
    known, taken = default, [0] * len(order)
    for _ in range(BALANCING_ROUNDS):
        sizes = range_sizes(question, known)
        taken = [max(before, sizes.taken_bytes(known, card)) for before, card in zip(taken, order, strict=True)]
        rooms = [
            Room(usable_bytes=question.rig.gpus[card].usable_bytes, taken_bytes=fixed)
            for card, fixed in zip(order, taken, strict=True)
        ]
        counts = balanced_slots(
            rooms,
            lambda device, first, end, sizes=sizes: sizes.range_bytes(order[device], first, end),  # type: ignore[misc]
            first_slot=sizes.first_slot,
            end_slot=sizes.end_slot,
        )
        if counts is None:
            return
        split = tuple(float(count) for count in counts)
        if split == known.settings.tensor_split:
            return
        known = question.place(replace(known.settings, tensor_split=split), known.context_tokens)
        yield known
