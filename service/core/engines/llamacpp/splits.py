"""Ways to divide a model over the cards where the user left that open, everything else being given."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from service.core.engines.llamacpp.balanced_split import Room, balanced_slots, holds_all
from service.core.engines.llamacpp.question import Choice, Question
from service.core.engines.llamacpp.range_sizes import RangeSizes, range_sizes
from service.core.engines.llamacpp.refusals import MAX_SHARES
from service.core.engines.llamacpp.settings import LlamaCppSettings

BALANCING_ROUNDS: Final = 5


def first_fitting(question: Question, settings: LlamaCppSettings, context_tokens: int) -> Choice | None:
    """The first split that fits: llama.cpp's own, else a balanced one, else one card alone; None where none does."""
    return next((choice for choice in placed_splits(question, settings, context_tokens) if choice.fits), None)


def may_fit(question: Question, settings: LlamaCppSettings, context_tokens: int, spare_bytes: int = 0) -> bool:
    """Whether any split has room for all but compute buffers: where none has, none fits, and no graph is needed.

    spare_bytes: so much is to be left on every card that is used.
    """
    default = question.hold(settings, context_tokens)
    if default.fits_with(spare_bytes):
        return True
    if _may_balance(question, default):
        sizes = range_sizes(question, default)
        order = default.placement.device_order
        taken = [bytes_ + spare_bytes for bytes_ in _taken(sizes, default)]
        if holds_all(_rooms(question, order, taken), sizes.by_device(order), sizes.span):
            return True
    return any(question.hold(alone, context_tokens).fits_with(spare_bytes) for alone in _one_card(question, default))


def placed_splits(question: Question, settings: LlamaCppSettings, context_tokens: int) -> Iterator[Choice]:
    """Splits, llama.cpp's own split first; those that overflow without compute buffers are not computed."""
    if not question.may_balance and not question.may_use_one_card:
        yield question.place(settings, context_tokens)
        return
    default = question.hold(settings, context_tokens)
    if default.fits:
        default = question.place(settings, context_tokens)
        yield default
    if _may_balance(question, default):
        yield from balanced(question, default)
    for alone in _one_card(question, default):
        if question.hold(alone, context_tokens).fits:
            yield question.place(alone, context_tokens)


def _may_balance(question: Question, default: Choice) -> bool:
    return question.may_balance and _is_open(default) and len(default.placement.device_order) <= MAX_SHARES


def _is_open(default: Choice) -> bool:
    """Whether there are several cards and nothing says how layers go over them."""
    placement = default.placement
    several = len(placement.device_order) > 1 and placement.split_mode == "layer"
    return several and default.settings.tensor_split is None


def _one_card(question: Question, default: Choice) -> Iterator[LlamaCppSettings]:
    """Everything on one card alone, on each kind of card once."""
    settings = default.settings
    if not (question.may_use_one_card and _is_open(default) and settings.n_gpu_layers == "all"):
        return
    if settings.names_cards:
        return
    order = default.placement.device_order
    kinds = {question.rig.gpus[position]: index for index, position in reversed(list(enumerate(order)))}
    for index in reversed(kinds.values()):
        yield replace(default.settings, split_mode="none", main_gpu=index)


def balanced(question: Question, default: Choice) -> Iterator[Choice]:
    """Splits that fill all cards alike; compute buffers depend on the split, so that it is corrected a few times."""
    order = default.placement.device_order
    known, taken = default, [0] * len(order)
    for _ in range(BALANCING_ROUNDS):
        sizes = range_sizes(question, known)
        taken = list(map(max, taken, _taken(sizes, known)))
        counts = balanced_slots(_rooms(question, order, taken), sizes.by_device(order), sizes.span)
        if counts is None:
            return
        split = tuple(float(count) for count in counts)
        if split == known.settings.tensor_split:
            return
        known = question.place(replace(known.settings, tensor_split=split), known.context_tokens)
        yield known


def _taken(sizes: RangeSizes, known: Choice) -> list[int]:
    """What each card needs besides its slots, as far as it is known."""
    return [sizes.taken_bytes(known, card) for card in known.placement.device_order]


def _rooms(question: Question, order: Sequence[int], taken: Sequence[int]) -> list[Room]:
    gpus = question.rig.gpus
    return [
        Room(usable_bytes=gpus[card].usable_bytes, taken_bytes=fixed) for card, fixed in zip(order, taken, strict=True)
    ]
