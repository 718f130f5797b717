"""One walk through memory events for a range of counts, against a walk for each count."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from service.core.engines.llamacpp.compute.affine_pool import affine_peak
from service.core.engines.llamacpp.compute.pool import Pool


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """Memory events of pieces whose sizes are a constant and so many bytes per unit of a count."""

    events: list[int]
    sizes: list[tuple[int, int]]
    remains: dict[int, int]

    def sizes_at(self, count: int) -> dict[int, int]:
        """Bytes of each piece."""
        return {piece: constant + slope * count for piece, (constant, slope) in enumerate(self.sizes)}

    def walked(self, count: int) -> int:
        """The furthest address by a walk for this count alone."""
        pool, addresses, sizes = Pool(), dict[int, int](), self.sizes_at(count)
        for event in self.events:
            if event < 0:
                pool.free(addresses[~event], sizes[~event])
            elif event in self.remains:
                whole, kept = self.remains[event], sizes[event]
                addresses[event] = addresses[whole]
                if sizes[whole] > kept:
                    pool.free(addresses[whole] + kept, sizes[whole] - kept)
            else:
                addresses[event] = pool.alloc(sizes[event])
        return pool.peak_bytes


@st.composite
def pieces(draw: st.DrawFn) -> Pieces:
    """Pieces that are taken, given back, and of which a part is kept."""
    found, live = Pieces(events=[], sizes=[], remains={}), list[int]()
    for _ in range(draw(st.integers(1, 30))):
        action = draw(st.sampled_from(["take", "take", "give back", "keep"]))
        if action == "give back" and live:
            found.events.append(~live.pop(draw(st.integers(0, len(live) - 1))))
            continue
        piece = len(found.sizes)
        if action == "keep" and live:
            whole = live.pop(draw(st.integers(0, len(live) - 1)))
            constant, slope = found.sizes[whole]
            found.sizes.append((max(1, constant - draw(st.sampled_from([0, 1, 5]))), slope))
            found.remains[piece] = whole
        else:
            found.sizes.append((draw(st.integers(1, 40)), draw(st.sampled_from([0, 0, 1, 2, 5]))))
        found.events.append(piece)
        live.append(piece)
    return found


@given(pieces(), st.integers(0, 60))
def test_a_walk_holds_over_its_range(found: Pieces, at: int) -> None:
    """At the count of the walk, and at every other one of the range that it names, the furthest address is exact."""
    slopes = {piece: slope for piece, (_, slope) in enumerate(found.sizes) if slope}
    peak = affine_peak(found.events, found.sizes_at(at), slopes, found.remains, at)
    assert peak.first <= at <= peak.last
    for count in range(max(0, peak.first), min(peak.last, 80) + 1):
        assert peak.bytes_for(count) == found.walked(count)


def test_pieces_that_fit_for_all_counts_have_one_walk() -> None:
    """A mask that grows, given back before a smaller piece: its place is taken again from a known count on."""
    peak = affine_peak([0, 1, ~0, 2], {0: 640, 1: 100, 2: 300}, {0: 64}, {}, 10)
    assert (peak.first, peak.last > 10**9) == (5, True)
    assert [peak.bytes_for(count) for count in (5, 10, 1000)] == [420, 740, 64100]
