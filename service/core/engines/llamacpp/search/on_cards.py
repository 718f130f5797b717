"""The best division of a model that lies on the cards whole."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from service.core.engines.llamacpp.companions import ALONE
from service.core.engines.llamacpp.question import Choice
from service.core.engines.llamacpp.search.card_times import card_times
from service.core.engines.llamacpp.search.divided import Layers, fastest_fitting
from service.core.engines.llamacpp.search.judge import Judge
from service.core.engines.llamacpp.search.learned import Kinds, Learned
from service.core.engines.llamacpp.search.ranking import Ranked, best_of
from service.core.engines.llamacpp.search.shifting import refined
from service.core.engines.llamacpp.search.stages import Divider, slot_sizes
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.engines.llamacpp.splits import balanced


def best_division(judge: Judge, settings: LlamaCppSettings, context_tokens: int) -> Ranked | None:
    """The best way to divide everything over the cards; None where it fits in none.

    settings: with n_gpu_layers and without a split. Candidates: llama.cpp's own division by free memory, the fastest
    one over any of the cards, with a pipeline over them and without, and, where the first does not fit, one that fills
    all cards alike.
    """
    question = judge.question
    held = question.hold(settings, context_tokens)
    default = question.place(settings, context_tokens) if held.fits else held
    found = [_ranked(judge, default)] if held.fits and default.fits else []
    found += _divisions(judge, settings, default, found)
    if not found or not held.fits or not default.fits:
        fits = next((choice for choice in balanced(question, default) if choice.fits), None)
        found += [] if fits is None else [_ranked(judge, fits)]
    return best_of(found)


def _ranked(judge: Judge, choice: Choice) -> Ranked:
    seconds = judge.seconds_of(choice)
    return Ranked(choice=choice, request_s=inf if seconds is None else seconds)


def _divisions(
    judge: Judge, settings: LlamaCppSettings, default: Choice, fitting: Sequence[Ranked]
) -> list[Ranked]:  # fmt: skip
    """The fastest divisions, where they are noticeably faster than what fits already."""
    question, order = judge.question, default.placement.device_order
    layers = Layers(question=question, settings=settings, order=order)
    times = card_times(judge, settings, order) if layers.can_be_stated else None
    if times is None:
        return []
    slot_sums = slot_sizes(judge, default)
    kinds, learned = Kinds.of(question), Learned(by_card=question.companions != ALONE)
    if any(device.compute_bytes for device in default.placement.devices):
        learned.observe(default, kinds)
    divider = Divider(
        judge=judge, order=order, times=times[0], overlap=times[1], sizes=slot_sums, kinds=kinds, learned=learned
    )
    if settings.split_mode == "layer" or settings.names_cards:
        divider = replace(divider, all_cards=True)
    found = list(fitting)
    for pipelined in (True, False):
        below_s = min((each.request_s for each in found), default=inf)
        choice = fastest_fitting(layers, divider, default.context_tokens, pipelined=pipelined, below_s=below_s)
        if choice is None and not found and divider.all_cards and not settings.names_cards:
            divider = replace(divider, all_cards=False)
            choice = fastest_fitting(layers, divider, default.context_tokens, pipelined=pipelined, below_s=below_s)
        if choice is not None:
            found.append(_ranked(judge, choice))
    if found:
        found.append(refined(layers, divider, min(found, key=lambda each: each.request_s)))
    return found[len(fitting) :]
