"""The furthest address of a compute buffer as a function of one count, around a value of it.

The allocator only compares sizes. Where all sizes are affine in one count, every comparison comes out the same over a
range of counts around the one it was made at; within that range addresses are affine as well. So one walk through the
events of a graph answers for many context lengths, exactly.

Source: ggml_dyn_tallocr_alloc and _free_bytes, ggml/src/ggml-alloc.c:205-346 (llama.cpp in llama-cpp-python 0.3.36).
"""

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
        more = count - self.at
        return max([address + slope * more for slope, address in self.candidates.items()])


class AffinePool:
    """Free blocks of one buffer, as `Pool` has them, and the range of counts for which they are these.

    low, high: how far the count may go below and above that of the walk. Blocks that touch do so for all counts, since
    no piece between others becomes empty.
    """

    __slots__ = ("high", "low", "offsets", "peaks", "sizes")

    def __init__(self) -> None:
        self.offsets: list[Affine] = [(0, 0)]
        self.sizes: list[Affine] = [(_ENDLESS, 0)]
        self.peaks: dict[int, int] = {0: 0}
        self.low = -_ENDLESS
        self.high = _ENDLESS

    def keep(self, gap: int, slope: int) -> None:
        """Limit the range to counts at which a gap that is not negative now stays so."""
        if slope > 0:
            self.low = max(self.low, -(gap // slope))
        elif slope < 0:
            self.high = min(self.high, gap // -slope)

    def alloc(self, size: int, slope: int) -> Affine:
        """Address of a piece."""
        sizes = self.sizes
        best = last = len(sizes) - 1
        best_size, best_slope = _ENDLESS, 0
        for i in range(last):
            have, have_slope = sizes[i]
            fits = size <= have
            if have_slope != slope:
                self._keep_order(have - size, have_slope - slope)
            if fits:
                if best != last and have_slope != best_slope:
                    self._keep_order(best_size - have, best_slope - have_slope)
                if have <= best_size:
                    best, best_size, best_slope = i, have, have_slope
        offset = self.offsets[best]
        if best != last:
            self._take(best, size, slope)
        else:
            self.offsets[best] = offset[0] + size, offset[1] + slope
        end, end_slope = offset[0] + size, offset[1] + slope
        if end > self.peaks.get(end_slope, -1):
            self.peaks[end_slope] = end
        return offset

    def _keep_order(self, gap: int, slope: int) -> None:
        if gap >= 0:
            self.keep(gap, slope)
        else:
            self.keep(-gap - 1, -slope)

    def _take(self, block: int, size: int, slope: int) -> None:
        """Take a piece from the start of a block that is not the last."""
        (start, start_slope), (have, have_slope) = self.offsets[block], self.sizes[block]
        left, left_slope = have - size, have_slope - slope
        if left == 0:
            self.keep(0, left_slope)
            self.keep(0, -left_slope)
            del self.offsets[block], self.sizes[block]
            return
        self.keep(left - 1, left_slope)
        self.offsets[block] = start + size, start_slope + slope
        self.sizes[block] = left, left_slope

    def free(self, offset: Affine, size: int, slope: int) -> None:
        """Give back a piece, joining the block before and after."""
        offsets, sizes = self.offsets, self.sizes
        address, end = offset[0], offset[0] + size
        for i, (start, _) in enumerate(offsets):
            have, have_slope = sizes[i]
            if start + have == address:
                sizes[i] = have + size, have_slope + slope
                if i + 1 < len(offsets) and offsets[i + 1][0] == end:
                    self._join(i)
                return
            if start == end:
                offsets[i] = offset
                sizes[i] = have + size, have_slope + slope
                if i and offsets[i - 1][0] + sizes[i - 1][0] == address:
                    self._join(i - 1)
                return
        at = 0
        while at < len(offsets) and offsets[at][0] < address:
            at += 1
        offsets.insert(at, offset)
        sizes.insert(at, (size, slope))

    def _join(self, block: int) -> None:
        """Join a block and the next one."""
        (have, slope), (more, more_slope) = self.sizes[block], self.sizes[block + 1]
        self.sizes[block] = have + more, slope + more_slope
        del self.offsets[block + 1], self.sizes[block + 1]


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
    slope_of = slopes.get
    for event in events:
        if event < 0:
            pool.free(addresses[~event], sizes[~event], slope_of(~event, 0))
        elif event in remains:
            whole = remains[event]
            start, start_slope = addresses[event] = addresses[whole]
            kept, kept_slope = sizes[event], slope_of(event, 0)
            left, left_slope = sizes[whole] - kept, slope_of(whole, 0) - kept_slope
            if left > 0:
                pool.keep(left - 1, left_slope)
                pool.free((start + kept, start_slope + kept_slope), left, left_slope)
            else:
                pool.keep(-left, -left_slope)
        else:
            addresses[event] = pool.alloc(sizes[event], slope_of(event, 0))
    low, high = (pool.low, pool.high) if pool.low <= 0 <= pool.high else (0, 0)
    return Peak(first=at + low, last=at + high, at=at, candidates=pool.peaks)
