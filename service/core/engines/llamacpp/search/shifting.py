"""Divisions with slots shifted between cards, where sums over slots miss the time.

The fastest division is found by sums over slots. Where layers read windows of unlike lengths, or cards overlap unlike
each other, the speed model's own time of a division is another one than the sums say, and one near by may be faster.

Source: layers of one device are consecutive, src/llama-model.cpp:1556-1614 (llama.cpp in llama-cpp-python 0.3.36).
"""

from collections.abc import Iterator, Sequence
from itertools import combinations

from service.core.engines.llamacpp.question import Choice
from service.core.engines.llamacpp.search.divided import Layers
from service.core.engines.llamacpp.search.judge import SAME_FRACTION
from service.core.engines.llamacpp.search.layer_split import Range
from service.core.engines.llamacpp.search.ranking import Ranked
from service.core.engines.llamacpp.search.stages import Divider


def refined(layers: Layers, divider: Divider, start: Ranked) -> Ranked:
    """The best division that shifts reach from `start`, wide ones first; `start` itself where sums tell its time."""
    ranges = _ranges_of(start.choice, layers.order)
    estimate_s = divider.estimate_s(ranges, pipelined=start.choice.placement.pipeline_parallel)
    if len(ranges) < 2 or abs(estimate_s - start.request_s) <= start.request_s * SAME_FRACTION:
        return start
    best, shift = start, 1 << max(0, (ranges[-1][1] or len(divider.sizes.decode_share)).bit_length() - 2)
    while shift:
        found = _faster(layers, divider, best, list(_neighbours(ranges, shift, all_cards=divider.all_cards)))
        if found is None:
            shift //= 2
        else:
            best, ranges = found
    return best


def _faster(
    layers: Layers, divider: Divider, best: Ranked, divisions: Sequence[Sequence[Range]]
) -> tuple[Ranked, Sequence[Range]] | None:  # fmt: skip
    """The fastest of `divisions` that fits and is noticeably faster than `best`; None where none is."""
    judge, tokens, below_s = divider.judge, best.choice.context_tokens, best.request_s * (1 - SAME_FRACTION)
    asked = [(layers.settings_of(ranges), ranges) for ranges in divisions if divider.may_hold(ranges)]
    timed = [(judge.request_s(settings, tokens), at) for at, (settings, _) in enumerate(asked)]
    for _, at in sorted((seconds, at) for seconds, at in timed if seconds is not None and seconds < below_s):
        settings, ranges = asked[at]
        choice = layers.question.hold(settings, tokens)
        if choice.fits:
            choice = layers.question.place(settings, tokens)
            seconds = judge.seconds_of(choice)
            if choice.fits and seconds is not None and seconds < below_s:
                return Ranked(choice=choice, request_s=seconds), ranges
    return None


def _ranges_of(choice: Choice, order: Sequence[int]) -> Sequence[Range]:
    """What every card of `order` holds; who holds nothing does so where the next one begins."""
    slots, ranges = choice.placement.slots, list[Range]()
    end = slots.range_of(-1)[1]
    for card in order:
        first, last = slots.range_of(card)
        end = max(end, last)
        ranges.append((first, last) if last > first else (end, end))
    return ranges


def _neighbours(ranges: Sequence[Range], shift: int, *, all_cards: bool) -> Iterator[Sequence[Range]]:
    """Ranges with `shift` slots moved between two cards that no used one lies between, in either direction."""
    counts = [end - first for first, end in ranges]
    least = 1 if all_cards else 0
    for card, following in combinations(range(len(counts)), 2):
        if any(counts[card + 1 : following]):
            continue
        for giver, taker in ((card, following), (following, card)):
            if counts[giver] - shift >= least:
                moved = list(counts)
                moved[giver], moved[taker] = counts[giver] - shift, counts[taker] + shift
                yield _in_a_row(moved, ranges[0][0])


def _in_a_row(counts: Sequence[int], first: int) -> list[Range]:
    ranges = []
    for count in counts:
        ranges.append((first, first + count))
        first += count
    return ranges
