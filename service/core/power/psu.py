"""Whether power supplies bear a rig, lasting and for a moment, and which one would.

Source: domain notes on power, sections 1, 2 and 4; the figures and who measured them are in hardware_db/power.toml.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from service.core.machine import Psu
from service.core.power.facts import PowerFacts, PsuClass


@dataclass(frozen=True, slots=True, kw_only=True)
class PsuLoad:
    """What one supply has to bear: cards it feeds by position, the lasting load, and the load for about 10 ms."""

    cards: tuple[int, ...]
    sustained_w: float
    transient_w: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CardPower:
    """What a card may draw, and its own power, both in watts."""

    limit_w: float
    own_w: float


def transient_w(
    rest_w: float, cards: Sequence[CardPower], facts: PowerFacts, *, worst_case: bool, in_step: bool = False
) -> float:
    """Load of a moment in which the largest card makes its step and the others a small one, or all at once.

    in_step: whether cards work in step, as in tensor split; those of a layer split do not, so that one spike at a time
    is planned for. A power limit is an average over longer than a spike, which follows the card's own power.
    Source: domain notes on power, section 2: 1.6 for the largest card, 1.2 for the rest.
    """
    if not cards:
        return rest_w
    if in_step and len(cards) > 1:
        return rest_w + facts.synchronous_step * sum([max(card.limit_w, card.own_w) for card in cards])
    largest = max(card.limit_w for card in cards)
    step = facts.worst_step if worst_case else facts.largest_step
    return rest_w + step * largest + facts.other_step * (sum([card.limit_w for card in cards]) - largest)


def psu_loads(
    rest_w: float, cards: Sequence[CardPower], psu: Psu, facts: PowerFacts, *, in_step: bool = False
) -> tuple[PsuLoad, ...]:
    """Load of each supply: the first bears the host, the cards go as stated, else so that the loads are most alike.

    rest_w: everything but the cards, which stand in the rig's order.
    Source: domain notes on power, section 4: each set of rails must satisfy its own check.
    """
    feeds = psu.feeds or _divided(rest_w, [card.limit_w for card in cards], psu.count)
    loads = []
    for number, fed in enumerate(feeds):
        own = [cards[card] for card in fed]
        rest = rest_w if number == 0 else 0.0
        peak_w = transient_w(rest, own, facts, worst_case=psu.worst_case, in_step=in_step)
        lasting_w = rest + sum([card.limit_w for card in own])
        loads.append(PsuLoad(cards=tuple(fed), sustained_w=lasting_w, transient_w=peak_w))
    return tuple(loads)


def _divided(rest_w: float, limits_w: Sequence[float], count: int) -> tuple[tuple[int, ...], ...]:
    """The largest card first, each to the supply with the least load so far."""
    loads, feeds = [rest_w] + [0.0] * (count - 1), [[] for _ in range(count)]  # type: list[float], list[list[int]]
    for card in sorted(range(len(limits_w)), key=lambda each: -limits_w[each]):
        lightest = loads.index(min(loads))
        loads[lightest] += limits_w[card]
        feeds[lightest].append(card)
    return tuple(tuple(sorted(cards)) for cards in feeds)


def least_psu_w(load: PsuLoad, vendor_w: float, bears: PsuClass, facts: PowerFacts) -> float:
    """Rating that bears a load lastingly and for a moment, and is no less than the cards' makers ask for."""
    return max(lasting_psu_w(load, facts), load.transient_w / bears.transient_fraction, vendor_w)


def lasting_psu_w(load: PsuLoad, facts: PowerFacts) -> float:
    """Rating that bears a load lastingly."""
    return load.sustained_w / facts.sustained_fraction


def standard_psu_w(least_w: float, facts: PowerFacts) -> float:
    """The smallest supply sold that has a rating; beyond the largest, several together in steps."""
    for size in facts.standard_sizes_w:
        if size >= least_w:
            return size
    return -(-least_w // facts.beyond_step_w) * facts.beyond_step_w


def recommended_psu_w(
    rest_w: float, cards: Sequence[CardPower], vendor_w: float, psu: Psu, facts: PowerFacts, *, in_step: bool
) -> float:
    """The smallest supply sold that bears its load, of the fullest one where there are several.

    More load, or a larger step, never gives a smaller one. Cards in step are planned with what is sold today, unless
    another class is stated.
    """
    bears = facts.psu_class(psu)
    alone = psu_loads(rest_w, cards, psu, facts)
    least_w = max(least_psu_w(load, vendor_w if len(alone) == 1 else 0.0, bears, facts) for load in alone)
    if in_step:
        new = facts.best_psu_class if psu.atx_version is None and psu.kind is None else bears
        together = psu_loads(rest_w, cards, psu, facts, in_step=True)
        least_w = max(least_w, *(least_psu_w(load, 0.0, new, facts) for load in together))
    return standard_psu_w(least_w, facts)
