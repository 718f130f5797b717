"""The best division of a model that the cards do not hold whole: experts, or layers, are left to the host.

Source: --n-cpu-moe keeps the experts of the first blocks on the host, common/common.h:1198-1216; layers are offloaded
from the last one on, src/llama-model.cpp:1589 (llama.cpp in llama-cpp-python 0.3.36).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from service.core.engines.llamacpp.candidates import first_true
from service.core.engines.llamacpp.companions import ALONE
from service.core.engines.llamacpp.question import Choice
from service.core.engines.llamacpp.search.card_times import CardTimes, PartTimes, card_times
from service.core.engines.llamacpp.search.divided import ROUNDS, Layers, fastest_fitting
from service.core.engines.llamacpp.search.judge import Judge
from service.core.engines.llamacpp.search.learned import Kinds, Learned
from service.core.engines.llamacpp.search.ranking import Ranked
from service.core.engines.llamacpp.search.shifting import refined
from service.core.engines.llamacpp.search.stages import Divider, SlotSizes, slot_sizes
from service.core.engines.llamacpp.settings import LlamaCppSettings


def best_offload(judge: Judge, settings: LlamaCppSettings, context_tokens: int) -> Choice | None:
    """The way to leave the least to the host; None where none is found.

    settings: without a split and without n_gpu_layers. Experts of a mixture go first, as few blocks of them as the
    cards allow together, then layers with everything in them.
    """
    hp = judge.question.hp
    if hp.n_expert > 0 and settings.n_cpu_moe is None and not settings.override_tensor:
        moved = _fewest_experts(judge, settings, context_tokens)
        if moved is not None:
            return moved
        settings = replace(settings, n_cpu_moe=hp.n_layer_all)
    return _most_layers(judge, settings, context_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cards:
    """Settings with all layers on the cards, and what divisions of them are made from."""

    layers: Layers
    divider: Divider
    held: Choice


def _cards(judge: Judge, settings: LlamaCppSettings, context_tokens: int) -> _Cards | None:
    full = replace(settings, n_gpu_layers="all")
    held = judge.question.hold(full, context_tokens)
    order = held.placement.device_order
    times = card_times(judge, full, order)
    layers = Layers(question=judge.question, settings=full, order=order)
    if times is None or not layers.can_be_stated:
        return None
    learned = Learned(by_card=judge.question.companions != ALONE)
    divider = Divider(
        judge=judge,
        order=order,
        times=times[0],
        overlap=times[1],
        sizes=slot_sizes(judge, held),
        kinds=Kinds.of(judge.question),
        learned=learned,
        all_cards=full.names_cards,
    )
    return _Cards(layers=layers, divider=divider, held=held)


def _most_layers(judge: Judge, settings: LlamaCppSettings, context_tokens: int) -> Choice | None:
    """Layers over cards and host so that a token takes the least time, which fills the cards."""
    cards = _cards(judge, settings, context_tokens)
    alone = judge.speed(replace(settings, n_gpu_layers=0), context_tokens)
    if cards is None or alone.decode is None:
        return None
    host = CardTimes(
        decode=PartTimes(blocks_s=alone.decode.step_s, output_s=0.0),
        prefill=PartTimes(blocks_s=alone.prefill_s or 0.0, output_s=0.0),
    )
    divider = replace(cards.divider, host=host)
    choice = fastest_fitting(cards.layers, divider, context_tokens, pipelined=False)
    seconds = None if choice is None else judge.seconds_of(choice)
    if choice is None or seconds is None:
        return choice
    return refined(cards.layers, divider, Ranked(choice=choice, request_s=seconds)).choice


def _fewest_experts(judge: Judge, settings: LlamaCppSettings, context_tokens: int) -> Choice | None:
    """All layers on the cards, with the experts of the fewest blocks on the host."""
    blocks = judge.question.hp.n_layer_all
    full = _cards(judge, settings, context_tokens)
    if full is None:
        return None
    without = judge.question.hold(replace(full.layers.settings, n_cpu_moe=blocks), context_tokens)
    lighter = slot_sizes(judge, without, full.held)
    dividers = _dividers(full.divider, lighter)
    usable_bytes = sum(judge.question.rig.gpus[card].usable_bytes for card in full.layers.order)

    def is_divisible(n: int) -> bool:
        return dividers(n).divide(pipelined=False) is not None

    least = first_true(lambda n: full.divider.sizes.least_bytes(lighter, n) <= usable_bytes, 1, blocks + 1)
    least = _first(is_divisible, least, blocks + 1)
    for _ in range(ROUNDS):
        division = dividers(least).divide(pipelined=False) if least <= blocks else None
        if division is None:
            return None
        layers = replace(full.layers, settings=replace(full.layers.settings, n_cpu_moe=least))
        choice = judge.question.place(layers.settings_of(division.ranges), context_tokens)
        if choice.fits:
            return choice
        if not full.divider.learned.observe(choice, dividers(least).kinds):
            return None
        least = _first(is_divisible, least, blocks + 1)
    return None


def _dividers(divider: Divider, without: SlotSizes) -> Callable[[int], Divider]:
    """Dividers by the number of blocks without their experts."""
    full = divider.sizes
    return cache(
        lambda n: replace(divider, sizes=full.lighter_before(without, n), kinds=replace(divider.kinds, lighter=n))
    )


def _first(holds: Callable[[int], bool], first: int, end: int) -> int:
    """The lowest number from `first` on for which `holds`, as it does for all higher ones; `end` where none does.

    Looked for in growing steps, because it is mostly the first.
    """
    step, low, high = 1, first - 1, first
    while high < end and not holds(high):
        low, high, step = high, min(high + step, end), 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
