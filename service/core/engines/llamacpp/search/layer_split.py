"""The fastest division of layers over cards in a given order, each within its memory.

Layers run one after the other, so that the time of a token is a sum over cards of what each of them holds: linear in
the shares. The least of it lies in a corner, the fastest memory filled first, and is found exactly by going through the
cards once, keeping for every number of layers the best way to hold them.

Source: layers of one device are consecutive, src/llama-model.cpp:1556-1614 (llama.cpp in llama-cpp-python 0.3.36).
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from service.core.engines.llamacpp.search.reach import Reach

Range = tuple[int, int]
"""First and end slot of a card; empty where it holds none."""

_SKIPPED: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One card.

    seconds_before[p]: time of slots before p. further_s: what a card costs that is not the first. stage_before: what
    the longest stage is judged by, where `longest` is given.
    """

    seconds_before: Sequence[float]
    reach: Reach
    further_s: float = 0.0
    stage_before: Sequence[float] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """Slots of every card, in their order, and the time; slots before the first card's are the host's."""

    ranges: tuple[Range, ...]
    seconds: float


def fastest_division(
    stages: Sequence[Stage],
    *,
    host_before: Sequence[float] | None = None,
    longest: float = inf,
    all_cards: bool = False,
) -> Division | None:
    """The division with the least time; None where there is none.

    host_before[p]: time where slots before p are the host's; None: it takes none. longest: no stage may take longer.
    all_cards: every card holds at least one slot. Cost: one pass over the slots per card.
    """
    n = len(stages[0].seconds_before) - 1
    on_host = [0.0, *([inf] * n)] if host_before is None else list(host_before)
    passed = [_Pass(held=[inf] * (n + 1))]
    for index, stage in enumerate(stages):
        best, reach = passed[-1].held, stage.reach
        held = _Pass(held=[inf] * (n + 1) if all_cards else list(best))
        if host_before is None and (not all_cards or index == 0):
            held.begin(stage, reach.first, longest)
        elif not all_cards or index == 0:
            held.extend(stage, on_host, reach.first, longest, first=True)
        if index:
            held.extend(stage, best, reach.further, longest, first=False)
        passed.append(held)
    seconds = passed[-1].held[n]
    if min(seconds, on_host[n]) == inf:
        return None
    if on_host[n] < seconds:
        return Division(ranges=((0, 0),) * len(stages), seconds=on_host[n])
    return Division(ranges=_traced(passed[1:], n), seconds=seconds)


class _Pass:
    """The best ways for the cards so far, by the number of slots that they and the host hold together.

    held: their times. begins: where the last card's range begins, or that it holds none. is_first: whether no card
    comes before it.
    """

    __slots__ = ("begins", "held", "is_first")

    def __init__(self, held: list[float]) -> None:
        self.held = held
        self.begins = [_SKIPPED] * len(held)
        self.is_first = [False] * len(held)

    def begin(self, stage: Stage, reach: Sequence[int], longest: float) -> None:
        """Let a card hold the first slots: `extend` from the one way there is where the host holds nothing."""
        seconds, held, work, n = stage.seconds_before, self.held, stage.stage_before, len(self.held) - 1
        for end in range(1, n + 1):
            taken_s = seconds[end] - seconds[0]
            if not reach[end] and taken_s < held[end] and not (work and work[end] - work[0] > longest):
                held[end], self.begins[end], self.is_first[end] = taken_s, 0, True

    def extend(
        self,
        stage: Stage,
        before: Sequence[float],
        reach: Sequence[int],
        longest: float,
        *,
        first: bool,
    ) -> None:
        """Let a card go on from every way to hold fewer slots, and keep what is better than what is known.

        For every end the best beginning is the least of a window that moves on with it. In one piece: an eighth of a
        search is spent here.
        """
        seconds, held, n = stage.seconds_before, self.held, len(self.held) - 1
        further_s, work = 0.0 if first else stage.further_s, stage.stage_before if longest < inf else ()
        values = [way_s - begin_s for way_s, begin_s in zip(before, seconds, strict=True)]
        window: deque[int] = deque()
        for end in range(1, n):
            value, least = values[end - 1], reach[end]
            if value < inf:
                while window and values[window[-1]] >= value:
                    window.pop()
                window.append(end - 1)
            while window and (window[0] < least or (work and work[end] - work[window[0]] > longest)):
                window.popleft()
            if window:
                begin = window[0]
                taken_s = before[begin] + seconds[end] - seconds[begin] + further_s
                if taken_s < held[end]:
                    held[end], self.begins[end], self.is_first[end] = taken_s, begin, first
        for begin in range(reach[n], n):
            taken_s = before[begin] + seconds[n] - seconds[begin] + further_s
            if taken_s < held[n] and not (work and work[n] - work[begin] > longest):
                held[n], self.begins[n], self.is_first[n] = taken_s, begin, first


def _traced(passed: Sequence[_Pass], n: int) -> tuple[Range, ...]:
    """The ranges, from the last card back to the first that holds anything."""
    ranges: list[Range] = []
    end, done = n, False
    for card in reversed(passed):
        begin = _SKIPPED if done else card.begins[end]
        if begin == _SKIPPED:
            ranges.append((0, 0))
            continue
        ranges.append((begin, end))
        end, done = begin, card.is_first[end]
    return tuple(reversed(ranges))
