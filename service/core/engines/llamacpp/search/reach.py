"""How far a card's memory reaches: from which slot on it can hold everything up to another one.

Source: a card holds consecutive slots, src/llama-model.cpp:1556-1614 (llama.cpp in llama-cpp-python 0.3.36).
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from service.core.engines.llamacpp.search.learned import Kinds, Learned, Part


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """For every end the first slot that a card can begin with, the end itself where it holds nothing up to there.

    first: where no card comes before it; the last entries are for the output layer, which the last card holds.
    """

    first: Sequence[int]
    further: Sequence[int]


def reach_of(part: Part, usable_bytes: int, bytes_before: Sequence[int], kinds: Kinds, learned: Learned) -> Reach:
    """Reach of a card whose part differs only in what comes before and after it."""
    plain = _begins_of_slots(usable_bytes, bytes_before)
    begins = {}
    for first in (True, False):
        inner = part._replace(first=first, last=False)
        outer = part._replace(first=first, last=True, pipelined=part.pipelined and not first)
        found = _begins(inner, usable_bytes, bytes_before, kinds, learned) if learned.knows(inner) else list(plain)
        if learned.knows(outer):
            found[-1] = _begin_of_last(outer, usable_bytes, bytes_before, kinds, learned)
        else:
            found[-1] = plain[-1]
        begins[first] = found
    return Reach(first=begins[True], further=begins[False])


def _begins_of_slots(usable_bytes: int, bytes_before: Sequence[int]) -> list[int]:
    """The first beginning for every end where nothing but slots is known to take memory."""
    return [min(bisect_left(bytes_before, held - usable_bytes), end) for end, held in enumerate(bytes_before)]


def _begins(
    part: Part, usable_bytes: int, bytes_before: Sequence[int], kinds: Kinds, learned: Learned
) -> list[int]:  # fmt: skip
    """The first beginning for every end: more slots never need less, so that both move on together."""
    bits, number_bits = kinds.bits, kinds.number_bits
    counts = dict.fromkeys(bits, 0)
    taken: dict[int, int] = {}
    begins, begin, held = [0], 0, 0
    for end in range(1, len(bytes_before)):
        bit, end_bytes = bits[end - 1], bytes_before[end]
        counts[bit] += 1
        held |= bit
        while begin < end:
            whole = held | number_bits[end - begin]
            if whole not in taken:
                taken[whole] = learned.taken_bytes(part, whole)
            if end_bytes - bytes_before[begin] + taken[whole] <= usable_bytes:
                break
            bit = bits[begin]
            counts[bit] -= 1
            if not counts[bit]:
                held ^= bit
            begin += 1
        begins.append(begin)
    return begins


def _begin_of_last(
    part: Part, usable_bytes: int, bytes_before: Sequence[int], kinds: Kinds, learned: Learned
) -> int:  # fmt: skip
    """The first beginning of a range that ends with the output layer, looked for from there on back."""
    bits, number_bits = kinds.bits, kinds.number_bits
    taken: dict[int, int] = {}
    n, held = len(bytes_before) - 1, 0
    for begin in range(n - 1, -1, -1):
        held |= bits[begin]
        whole = held | number_bits[n - begin]
        if whole not in taken:
            taken[whole] = learned.taken_bytes(part, whole)
        if bytes_before[n] - bytes_before[begin] + taken[whole] > usable_bytes:
            return begin + 1
    return 0
