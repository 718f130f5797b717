"""The furthest address of a compute buffer as a function of one count, around a value of it.

The allocator only compares sizes. Where all sizes are affine in one count, every comparison comes out the same over a
range of counts around the one it was made at; within that range addresses are affine as well. So one walk through the
events of a graph answers for many context lengths, exactly.

Source: ggml_dyn_tallocr_alloc and _free_bytes, ggml/src/ggml-alloc.c:205-346 (llama.cpp in llama-cpp-python 0.3.36).
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

Affine: TypeAlias = tuple[int, int]
"""A number at the count of the walk, and what one more adds to it."""

_ENDLESS: Final = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """The furthest address for counts from `first` to `last`.

    at: the count of the walk. candidates: addresses at that count, by what one more adds; the furthest of them counts.
    """

    first: int
    last: int
    at: int
    candidates: Mapping[int, int]

    def bytes_for(self, count: int) -> int:
        """The furthest address where there are `count`."""
        more, candidates = count - self.at, self.candidates
        if len(candidates) == 1:
            ((slope, address),) = candidates.items()
            return address + slope * more
        return max([address + slope * more for slope, address in candidates.items()])


class AffinePool:
    """Free blocks of one buffer, as `Pool` has them, and the range of counts for which they are these.

    offsets, sizes: of each block at the count of the walk; starts_grow, sizes_grow: what one more adds to them. peaks:
    the furthest addresses handed out, by what one more adds. low, high: how far the count may go below and above that
    of the walk. Blocks that touch do so for all counts, since no piece between others becomes empty.
    """

    __slots__ = ("high", "low", "offsets", "peaks", "sizes", "sizes_grow", "starts_grow")

    def __init__(self) -> None:
        self.offsets, self.starts_grow = [0], [0]
        self.sizes, self.sizes_grow = [_ENDLESS], [0]
        self.peaks: dict[int, int] = {0: 0}
        self.low = -_ENDLESS
        self.high = _ENDLESS

    def keep(self, gap: int, slope: int) -> None:
        """Limit the range to counts at which a gap that is not negative now stays so, and a negative one negative."""
        if gap < 0:
            gap, slope = -gap - 1, -slope
        if slope > 0:
            self.low = max(self.low, -(gap // slope))
        elif slope < 0:
            self.high = min(self.high, gap // -slope)

    def alloc(self, size: int, slope: int) -> Affine:
        """Address of a piece."""
        sizes, slopes = self.sizes, self.sizes_grow
        best = last = len(sizes) - 1
        best_size, best_slope = _ENDLESS, 0
        for i in range(last):
            have, have_slope = sizes[i], slopes[i]
            if have_slope != slope:
                self.keep(have - size, have_slope - slope)
            if size <= have:
                if have_slope != best_slope and best != last:
                    self.keep(best_size - have, best_slope - have_slope)
                if have <= best_size:
                    best, best_size, best_slope = i, have, have_slope
        start, start_slope = self.offsets[best], self.starts_grow[best]
        end, end_slope = start + size, start_slope + slope
        if best != last and best_size == size:
            self.keep(0, best_slope - slope)
            self.keep(0, slope - best_slope)
            self._remove(best)
        else:
            self.offsets[best], self.starts_grow[best] = end, end_slope
            if best != last:
                self.keep(best_size - size - 1, best_slope - slope)
                sizes[best], slopes[best] = best_size - size, best_slope - slope
        if end > self.peaks.get(end_slope, -1):
            self.peaks[end_slope] = end
        return start, start_slope

    def free(self, address: Affine, size: int, slope: int) -> None:
        """Give back a piece, joining the block before and after."""
        offsets, sizes, slopes = self.offsets, self.sizes, self.sizes_grow
        offset = address[0]
        end = offset + size
        at = bisect_left(offsets, offset)
        if at and offsets[at - 1] + sizes[at - 1] == offset:
            sizes[at - 1] += size
            slopes[at - 1] += slope
            if offsets[at] == end:
                sizes[at - 1] += sizes[at]
                slopes[at - 1] += slopes[at]
                self._remove(at)
        elif offsets[at] == end:
            offsets[at], self.starts_grow[at] = address
            sizes[at] += size
            slopes[at] += slope
        else:
            offsets.insert(at, offset)
            self.starts_grow.insert(at, address[1])
            sizes.insert(at, size)
            slopes.insert(at, slope)

    def _remove(self, block: int) -> None:
        del self.offsets[block], self.starts_grow[block], self.sizes[block], self.sizes_grow[block]


def affine_peak(
    events: Sequence[int], sizes: Mapping[int, int], slopes: Mapping[int, int], remains: Mapping[int, int], at: int
) -> Peak:
    """Walk through memory events at the count `at`.

    events: the number of a piece where it is taken, its complement where it is given back. sizes: bytes of each piece
    at that count; slopes: what one more adds, for pieces that depend on it. remains: pieces that are what is kept of
    another.
    """
    pool, addresses = AffinePool(), dict[int, Affine]()
    for piece, slope in slopes.items():
        pool.keep(sizes[piece] - 1, slope)
    take, give_back, slope_of = pool.alloc, pool.free, slopes.get
    for event in events:
        if event < 0:
            give_back(addresses[~event], sizes[~event], slope_of(~event, 0))
        elif event in remains:
            whole = remains[event]
            start, start_slope = addresses[event] = addresses[whole]
            kept, kept_slope = sizes[event], slope_of(event, 0)
            left, left_slope = sizes[whole] - kept, slope_of(whole, 0) - kept_slope
            pool.keep(left - 1, left_slope)
            if left > 0:
                give_back((start + kept, start_slope + kept_slope), left, left_slope)
        else:
            addresses[event] = take(sizes[event], slope_of(event, 0))
    low, high = (pool.low, pool.high) if pool.low <= 0 <= pool.high else (0, 0)
    return Peak(first=at + low, last=at + high, at=at, candidates=pool.peaks)
