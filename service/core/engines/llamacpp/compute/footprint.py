"""Size of one backend's compute buffer as a function of the cells of the caches.

Graphs are built once with symbolic cell counts: powers of two far beyond any size, so that a size in bytes shows how
often it contains each of them, or 64ths of them. Only addresses depend on the actual counts, and are found by walking
through the memory events, once for a range of counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from service.core.engines.llamacpp.buffer_types import BufferRules
from service.core.engines.llamacpp.compute.affine_pool import Peak, affine_peak
from service.core.engines.llamacpp.compute.pool import ChunkedPool, furthest_address, peak_of

CELLS_PER_UNIT: Final = 64
"""Counts of cells must be multiples of it: some backends keep notes for so many cells at once."""

# no sum of two exponents is within 100 below a third, so a product of two counts is never mistaken for a count
_EXPONENTS: Final = (("hca", 2200), ("csa", 1000), ("indexer", 600), ("swa", 230), ("base", 60))

SYMBOLS: Final[Mapping[str, int]] = {kind: CELLS_PER_UNIT << exponent for kind, exponent in _EXPONENTS}
"""Stand-ins for the cells of the caches whose length follows the context."""

_LIMIT: Final = 1 << 52

Terms = tuple[tuple[str, int], ...]


class NotAffineError(Exception):
    """A size that is no constant plus multiples of cell counts."""


def split_size(size: int) -> tuple[int, Terms]:
    """Constant part and bytes per unit of each kind of cells of a symbolic size in bytes.

    The constant is negative where rows of cells end in a gap that is not counted. Raises NotAffineError where the size
    depends on the counts in another way.
    """
    terms: list[tuple[str, int]] = []
    for kind, exponent in _EXPONENTS:
        half = 1 << (exponent - 1)
        factor, size = divmod(size + half, 1 << exponent)
        size -= half
        if factor:
            if not 0 < factor < _LIMIT:
                raise NotAffineError
            terms.append((kind, factor))
    if abs(size) >= _LIMIT:
        raise NotAffineError
    return size, tuple(terms)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pieces:
    """Memory events of one backend and how large their pieces are.

    constant: bytes of each piece whose size does not depend on cells. lasting: pieces taken before all others and never
    given back, whose sizes simply add up, and lasting_bytes of those that do not depend on cells; varying: other pieces
    that do; both by number with constant part and terms. rest: the other events. remains: pieces that are what is kept
    of another.
    """

    rest: tuple[int, ...]
    remains: Mapping[int, int]
    constant: Mapping[int, int]
    lasting: Mapping[int, tuple[int, Terms]]
    varying: Mapping[int, tuple[int, Terms]]
    lasting_bytes: int


def pieces_of(
    rules: BufferRules, events: Sequence[int], sizes: Sequence[int], remains: Mapping[int, int]
) -> Pieces:  # fmt: skip
    """Events and symbolic sizes taken apart; raises NotAffineError where a size depends on counts in another way."""
    given_back = {~event for event in events if event < 0}.union(remains.values())
    start = 0
    if rules.max_buffer_bytes is None:
        while start < len(events) and events[start] >= 0 and events[start] not in given_back:
            start += 1
    first = set(events[:start])
    constant: dict[int, int] = {}
    lasting: dict[int, tuple[int, Terms]] = {}
    varying: dict[int, tuple[int, Terms]] = {}
    mask = rules.alignment_bytes - 1
    for piece in {event for event in events if event >= 0}:
        size, terms = split_size(sizes[piece]) if sizes[piece] >= _LIMIT else (sizes[piece], ())
        if terms:
            (lasting if piece in first else varying)[piece] = size, terms
        else:
            constant[piece] = (size + mask) & ~mask
    return Pieces(
        rest=tuple(events[start:]),
        remains=remains,
        constant=constant,
        lasting=lasting,
        varying=varying,
        lasting_bytes=sum(constant[piece] for piece in first if piece in constant),
    )


class Footprint:
    """The buffer of one backend; `bytes_for` says how large it is for given cell counts.

    leading: the kind of cells over ranges of which one walk holds, None where every count needs its own; slopes: bytes
    that each piece grows by per unit of it. peaks: what walks found, by all other counts. Of lasting pieces,
    steady_bytes: what they have without cells, and growth: what they gain per unit of each kind, where that is whole
    alignments; growing: the others.
    """

    __slots__ = ("growing", "growth", "leading", "others", "peaks", "pieces", "rules", "slopes", "steady_bytes")

    def __init__(self, rules: BufferRules, pieces: Pieces) -> None:
        self.rules = rules
        self.pieces = pieces
        self._lead()
        self._sum_lasting()
        self.peaks: dict[tuple[int, ...], list[Peak]] = {}

    def _lead(self) -> None:
        """Choose the leading kind: sizes must grow by whole alignments, no piece be empty, and the buffer be one."""
        kinds = {kind: None for _, terms in self.pieces.varying.values() for kind, _ in terms}
        self.leading = "base" if "base" in kinds else next(iter(kinds), None)
        self.slopes = {
            piece: factor
            for piece, (_, terms) in self.pieces.varying.items()
            for kind, factor in terms
            if kind == self.leading
        }
        aligned = not any(factor % self.rules.alignment_bytes for factor in self.slopes.values())
        if not aligned or self.rules.max_buffer_bytes is not None or 0 in self.pieces.constant.values():
            self.leading = None
        self.others = tuple([kind for kind in kinds if kind != self.leading])

    def _sum_lasting(self) -> None:
        """Add up once what grows by whole alignments, which padding does not change."""
        alignment, pieces, growth = self.rules.alignment_bytes, self.pieces, dict[str, int]()
        self.steady_bytes, self.growing = pieces.lasting_bytes, dict[int, tuple[int, Terms]]()
        for piece, (size, terms) in pieces.lasting.items():
            if any(factor % alignment for _, factor in terms):
                self.growing[piece] = size, terms
                continue
            self.steady_bytes += (size + alignment - 1) & -alignment
            for kind, factor in terms:
                growth[kind] = growth.get(kind, 0) + factor
        self.growth = tuple(growth.items())

    def bytes_for(self, cells: Mapping[str, int]) -> int:
        """Bytes of the buffer where the caches have `cells` per stream."""
        lasting = self.steady_bytes
        for kind, factor in self.growth:
            lasting += factor * (cells[kind] // CELLS_PER_UNIT)
        if self.growing:
            lasting += sum(self._sizes(self.growing, cells))
        count = cells[self.leading] // CELLS_PER_UNIT if self.leading else 0
        others = tuple([cells[kind] for kind in self.others]) if self.others else ()
        known = self.peaks.get(others)
        if known is None:
            known = self.peaks.setdefault(others, [])
        for peak in known:
            if peak.first <= count <= peak.last:
                return lasting + peak.bytes_for(count)
        varying = self._sizes(self.pieces.varying, cells)
        sizes = {**self.pieces.constant, **dict(zip(self.pieces.varying, varying, strict=True))}
        if known and self.leading and min(varying) > 0:  # most graphs are asked for one count only
            peak = affine_peak(self.pieces.rest, sizes, self.slopes, self.pieces.remains, count)
        else:
            peak = Peak(first=count, last=count, at=count, candidates={0: self._walk(sizes)})
        known.append(peak)
        return lasting + peak.bytes_for(count)

    def _sizes(self, pieces: Mapping[int, tuple[int, Terms]], cells: Mapping[str, int]) -> tuple[int, ...]:
        """Bytes of pieces that depend on cells."""
        mask = self.rules.alignment_bytes - 1
        sizes = []
        for size, terms in pieces.values():
            for kind, factor in terms:
                size += factor * (cells[kind] // CELLS_PER_UNIT)  # noqa: PLW2901
            sizes.append((size + mask) & ~mask)
        return tuple(sizes)

    def _walk(self, sizes: Mapping[int, int]) -> int:
        """The furthest address of the events behind the lasting ones."""
        limit = self.rules.max_buffer_bytes
        if limit is None:
            return furthest_address(self.pieces.rest, sizes, self.pieces.remains)
        return peak_of(ChunkedPool(limit), self.pieces.rest, sizes, self.pieces.remains, {})
