"""Whether power supplies bear a rig, lasting and for a moment, and which one would.

Source: domain notes on power, sections 1, 2 and 4; the figures and who measured them are in hardware_db/power.toml.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from service.core.machine import Psu
from service.core.power.facts import PowerFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class PsuLoad:
    """What one supply has to bear: cards it feeds by position, the lasting load, and the load for about 10 ms."""

    cards: tuple[int, ...]
    sustained_w: float
    transient_w: float


def transient_w(rest_w: float, limits_w: Sequence[float], facts: PowerFacts, *, worst_case: bool) -> float:
    """Load of a moment in which the largest card makes its step, the others a small one.

    Cards of a layer split are not in step with each other; one spike at a time is planned for.
    Source: domain notes on power, section 2: 1.6 for the largest card, 1.2 for the rest.
    """
    if not limits_w:
        return rest_w
    largest = max(limits_w)
    step = facts.worst_step if worst_case else facts.largest_step
    return rest_w + step * largest + facts.other_step * (sum(limits_w) - largest)


def psu_loads(rest_w: float, limits_w: Sequence[float], psu: Psu, facts: PowerFacts) -> tuple[PsuLoad, ...]:
    """Load of each supply: the first bears the host, the cards go as stated, else so that the loads are most alike.

    rest_w: everything but the cards; limits_w: of the cards in the rig's order.
    Source: domain notes on power, section 4: each set of rails must satisfy its own check.
    """
    feeds = psu.feeds or _divided(rest_w, limits_w, psu.count)
    loads = []
    for number, cards in enumerate(feeds):
        own = [limits_w[card] for card in cards]
        rest = rest_w if number == 0 else 0.0
        peak = transient_w(rest, own, facts, worst_case=psu.worst_case)
        loads.append(PsuLoad(cards=tuple(cards), sustained_w=rest + sum(own), transient_w=peak))
    return tuple(loads)


def _divided(rest_w: float, limits_w: Sequence[float], count: int) -> tuple[tuple[int, ...], ...]:
    """The largest card first, each to the supply with the least load so far."""
    loads, feeds = [rest_w] + [0.0] * (count - 1), [[] for _ in range(count)]  # type: list[float], list[list[int]]
    for card in sorted(range(len(limits_w)), key=lambda each: -limits_w[each]):
        lightest = loads.index(min(loads))
        loads[lightest] += limits_w[card]
        feeds[lightest].append(card)
    return tuple(tuple(sorted(cards)) for cards in feeds)


def least_psu_w(load: PsuLoad, vendor_w: float, psu: Psu, facts: PowerFacts) -> float:
    """Rating that bears a load lastingly and for a moment, and is no less than the cards' makers ask for."""
    lasting = load.sustained_w / facts.sustained_fraction
    momentary = load.transient_w / facts.psu_class(psu).transient_fraction
    return max(lasting, momentary, vendor_w)


def recommended_psu_w(load: PsuLoad, vendor_w: float, psu: Psu, facts: PowerFacts) -> float:
    """The smallest supply sold that bears a load; beyond the largest, several together in steps.

    More load, or a larger step, never gives a smaller one.
    """
    least = least_psu_w(load, vendor_w, psu, facts)
    for size in facts.standard_sizes_w:
        if size >= least:
            return size
    return -(-least // facts.beyond_step_w) * facts.beyond_step_w
