"""Free blocks of a compute buffer: which address llama.cpp's allocator hands out next.

Source: ggml_dyn_tallocr, ggml/src/ggml-alloc.c:100-346 (llama.cpp in llama-cpp-python 0.3.36, ggml 0.25.3).
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

_ENDLESS: Final = 2**62
_MAX_CHUNKS: Final = 16


class Pool:
    """Free blocks of one buffer that may grow without limit.

    peak_bytes: the furthest address handed out so far.

    Source: ggml_dyn_tallocr_alloc and _free_bytes, ggml/src/ggml-alloc.c:205-346: the smallest of the blocks before the
    last that fits (the later one of equals), else the last.
    """

    __slots__ = ("offsets", "peak_bytes", "sizes")

    def __init__(
        self, offsets: Sequence[int] = (0,), sizes: Sequence[int] = (_ENDLESS,), peak_bytes: int = 0
    ) -> None:  # fmt: skip
        self.offsets = list(offsets)
        self.sizes = list(sizes)
        self.peak_bytes = peak_bytes

    def alloc(self, size: int) -> int:
        """Address of `size` bytes; `size` is already a multiple of the alignment."""
        sizes = self.sizes
        offsets = self.offsets
        best = last = len(sizes) - 1
        best_size = _ENDLESS
        for i in range(last):
            have = sizes[i]
            if size <= have <= best_size:
                best = i
                best_size = have
        offset = offsets[best]
        if sizes[best] == size:
            del offsets[best], sizes[best]
        else:
            offsets[best] = offset + size
            sizes[best] -= size
        self.peak_bytes = max(self.peak_bytes, offset + size)
        return offset

    def free(self, offset: int, size: int) -> None:
        """Give back `size` bytes at `offset`, joining the block before and after."""
        offsets = self.offsets
        sizes = self.sizes
        end = offset + size
        for i, start in enumerate(offsets):
            if start + sizes[i] == offset:
                sizes[i] += size
                if i + 1 < len(offsets) and offsets[i + 1] == end:
                    sizes[i] += sizes[i + 1]
                    del offsets[i + 1], sizes[i + 1]
                return
            if start == end:
                offsets[i] = offset
                sizes[i] += size
                if i and offsets[i - 1] + sizes[i - 1] == offset:
                    sizes[i - 1] += sizes[i]
                    del offsets[i], sizes[i]
                return
        at = 0
        while at < len(offsets) and offsets[at] < offset:
            at += 1
        offsets.insert(at, offset)
        sizes.insert(at, size)


def furthest_address(  # noqa: C901, PLR0912 - for speed
    events: Sequence[int], sizes: Mapping[int, int], remains: Mapping[int, int]
) -> int:
    """The furthest address of memory events in one buffer without limit.

    events: the number of a piece where it is taken, its complement where it is given back. sizes: bytes of each piece.
    remains: pieces that are what is kept of another. What `Pool` does, in one loop and with neighbours found by
    halving, since no other loop runs as often. From where an empty piece becomes an empty block, `Pool` goes on.
    """
    offsets, free, peak, further = [0], [_ENDLESS], 0, iter(events)
    addresses: dict[int, int] = {}
    for event in further:
        if event < 0:
            offset, size = addresses[~event], sizes[~event]
        elif event in remains:
            addresses[event] = offset = addresses[remains[event]]
            offset += sizes[event]
            size = sizes[remains[event]] - sizes[event]
            if size <= 0:
                continue
        else:
            size, best_size = sizes[event], _ENDLESS
            best = last = len(free) - 1
            for i in range(last):
                if size <= free[i] <= best_size:
                    best, best_size = i, free[i]
            addresses[event] = offset = offsets[best]
            if best_size == size:
                del offsets[best], free[best]
                continue
            free[best] -= size
            offsets[best] = offset = offset + size
            if best == last and offset > peak:
                peak = offset
            continue
        end, at = offset + size, bisect_left(offsets, offset)
        if at and offsets[at - 1] + free[at - 1] == offset:
            free[at - 1] += size
            if offsets[at] == end:
                free[at - 1] += free[at]
                del offsets[at], free[at]
        elif at < len(offsets) and offsets[at] == end:
            offsets[at] = offset
            free[at] += size
        elif size:
            offsets.insert(at, offset)
            free.insert(at, size)
        else:
            return peak_of(Pool(offsets, free, peak), chain([event], further), sizes, remains, addresses)
    return peak


def peak_of(
    pool: "Pool | ChunkedPool",
    events: Iterable[int],
    sizes: Mapping[int, int],
    remains: Mapping[int, int],
    addresses: dict[int, int],
) -> int:
    """The bytes that `pool` has after memory events, as `furthest_address` takes them; addresses: of what lives."""
    take, give_back = pool.alloc, pool.free
    for event in events:
        if event < 0:
            give_back(addresses[~event], sizes[~event])
        elif event in remains:
            whole, kept = remains[event], sizes[event]
            addresses[event] = addresses[whole]
            if sizes[whole] > kept:
                give_back(addresses[whole] + kept, sizes[whole] - kept)
        else:
            addresses[event] = take(sizes[event])
    return pool.peak_bytes


class ChunkedPool:
    """Free blocks of a buffer made of chunks of at most `chunk_bytes`, as backends with a largest buffer need.

    Addresses are chunk number times 2^62 plus offset.

    Source: ggml_dyn_tallocr_alloc and _new_chunk, ggml/src/ggml-alloc.c:160-280.
    """

    __slots__ = ("chunk_bytes", "chunks")

    def __init__(self, chunk_bytes: int) -> None:
        self.chunk_bytes = chunk_bytes
        self.chunks: list[Pool] = []

    @property
    def peak_bytes(self) -> int:
        """Bytes of all chunks together."""
        return sum(chunk.peak_bytes for chunk in self.chunks)

    def alloc(self, size: int) -> int:
        """Address of `size` bytes."""
        found = self._best_gap(size)
        if found is None:
            found = self._best_tail(size)
        if found is None:
            found = self._new_chunk(size), 0
        number, block = found
        chunk = self.chunks[number]
        offset = chunk.offsets[block]
        if chunk.sizes[block] == size:
            del chunk.offsets[block], chunk.sizes[block]
        else:
            chunk.offsets[block] += size
            chunk.sizes[block] -= size
        chunk.peak_bytes = max(chunk.peak_bytes, offset + size)
        return number * _ENDLESS + offset

    def free(self, offset: int, size: int) -> None:
        """Give back `size` bytes at `offset`."""
        number, at = divmod(offset, _ENDLESS)
        self.chunks[number].free(at, size)

    def _best_gap(self, size: int) -> tuple[int, int] | None:
        found = None
        for number, chunk in enumerate(self.chunks):
            best_size = _ENDLESS  # per chunk: a later chunk's gap wins over a smaller one before it
            for block in range(len(chunk.sizes) - 1):
                if size <= chunk.sizes[block] <= best_size:
                    found = number, block
                    best_size = chunk.sizes[block]
        return found

    def _best_tail(self, size: int) -> tuple[int, int] | None:
        found = None
        best_reuse = -_ENDLESS
        for number, chunk in enumerate(self.chunks):
            if chunk.sizes and chunk.sizes[-1] >= size:
                reuse = chunk.peak_bytes - chunk.offsets[-1] - size
                if (best_reuse < 0 and reuse > best_reuse) or 0 <= reuse < best_reuse:
                    found = number, len(chunk.sizes) - 1
                    best_reuse = reuse
        return found

    def _new_chunk(self, size: int) -> int:
        chunk = Pool()
        endless = len(self.chunks) == _MAX_CHUNKS - 1
        chunk.sizes[0] = _ENDLESS if endless else max(size, self.chunk_bytes)
        self.chunks.append(chunk)
        return len(self.chunks) - 1
