"""The search: chains of rigs that grow card by card, the most promising planned first, until enough do it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Final, Literal, TypeAlias

from service.planning.compare.table import Plans
from service.planning.recommend.builds import Build, Chain
from service.planning.recommend.floor import Floor, least_decode_s
from service.planning.recommend.needs import Needs
from service.planning.recommend.trial import Trial, try_build

MAX_PLANS: Final = 200
"""Plans made for one question, of each model on each rig that is tried: some seconds' work at most."""

LEAST_GAIN: Final = 1.03
"""What counts as faster: two runs of one build differ by less (speed study: 2.8 %)."""

Reason: TypeAlias = Literal[
    "rigs", "too_small", "over_limit", "too_slow", "planned", "refused", "unfit", "short", "not_needed", "not_reached"
]
Rank: TypeAlias = tuple[float, ...]
_Entry: TypeAlias = tuple[Rank, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Rigs that do what was asked, best first; failed: others that were planned; counts: of all rigs, by reason."""

    good: Sequence[Trial]
    failed: Sequence[Trial]
    counts: Counter[Reason]


@dataclass(slots=True, kw_only=True)
class _Search:
    needs: Needs
    floor: Floor
    planner: Plans
    chains: Sequence[Chain]
    counts: Counter[Reason] = field(default_factory=Counter)
    good: list[Trial] = field(default_factory=list)
    failed: list[Trial] = field(default_factory=list)
    plans_made: int = 0
    heap: list[_Entry] = field(default_factory=list)

    def run(self) -> Found:
        """Plan the rig with the best rank that is left, again and again.

        Where the rank is known before planning the first ones found are the best; where it is a speed, what is left is
        planned while it could still be among the best.
        """
        for index, chain in enumerate(self.chains):
            self.counts["rigs"] += len(chain.numbers)
            self._open(index)
        heapify(self.heap)
        while self.heap and not self._enough():
            rank, index, number = heappop(self.heap)
            build = self.chains[index].build(number)
            if self._adds_only(build):
                self._close(index, number, "not_needed")
            elif self.plans_made >= MAX_PLANS:
                heappush(self.heap, (rank, index, number))
                break
            else:
                self._plan(index, number, build)
        left: Reason = "not_needed" if self._enough() else "not_reached"
        for _, index, number in self.heap:
            self._close(index, number, left)
        return Found(good=self._named(), failed=self.failed, counts=self.counts)

    def _named(self) -> Sequence[Trial]:
        """Rigs that do what was asked and are not others with cards that gain nothing, best first, up to the limit."""
        ranked = sorted(self.good, key=lambda trial: (self._rank(trial.build, self._value(trial)), trial.build.names))
        return ranked[: self.needs.request.limit]

    def _keep(self, trial: Trial) -> None:
        """Add a rig that does what was asked unless it gains nothing on another; drop those that gain nothing on it."""
        if not any(_is_no_gain(trial, other) for other in self.good):
            self.good = [*(other for other in self.good if not _is_no_gain(other, trial)), trial]

    def _open(self, index: int) -> None:
        """Enter a chain with its first rig that may be large enough, if there is one."""
        chain = self.chains[index]
        if not chain.numbers:
            return
        base = chain.build(0).usable_bytes if chain.fixed else 0
        lacking = 0 if self.needs.request.allow_host_offload else max(0, self.floor.held_bytes - base)
        first = max(chain.numbers.start, -(-lacking // max(1, chain.grown.usable_bytes)))
        self.counts["too_small"] += min(first, chain.numbers.stop) - chain.numbers.start
        if first < chain.numbers.stop:
            self._push(index, first, None)

    def _push(self, index: int, number: int, last: Trial | None) -> None:
        """Enter a rig of a chain where it is within the limits and may be fast enough; last: the one before it."""
        chain = self.chains[index]
        build = chain.build(number)
        if self.needs.over_limit(build):
            self._close(index, number, "over_limit")
            return
        asked = self.needs.request.min_decode_tokens_per_s
        if asked is not None and self._most_decode(chain.build(chain.numbers.stop - 1), last) < asked:
            self._close(index, number, "too_slow")
            return
        heappush(self.heap, (self._rank(build, self._bound(build, last)), index, number))

    def _plan(self, index: int, number: int, build: Build) -> None:
        self.counts["planned"] += 1
        trial = try_build(build, self.needs, self.planner)
        self.plans_made += max(1, len(trial.plans))
        if trial.does:
            self._keep(trial)
        else:
            self.failed.append(trial)
            self.counts["refused" if trial.refused else "short" if trial.fits else "unfit"] += 1
        following = number + 1
        if following >= self.chains[index].numbers.stop:
            return
        if trial.does and not self._may_gain(index, trial):
            self._close(index, following, "not_needed")
        else:
            self._push(index, following, trial if trial.on_cards else None)

    def _may_gain(self, index: int, trial: Trial) -> bool:
        """Whether more cards in a chain could rank better than a rig that does what was asked."""
        decode, chain = trial.decode_tokens_per_s, self.chains[index]
        if self.needs.sort_by != "decode_tokens_per_s" or decode is None:
            return False
        if not trial.on_cards:
            return True
        return self._most_decode(chain.build(chain.numbers.stop - 1), trial) >= decode * LEAST_GAIN

    def _close(self, index: int, number: int, reason: Reason) -> None:
        """Count the rest of a chain."""
        self.counts[reason] += self.chains[index].numbers.stop - number

    def _adds_only(self, build: Build) -> bool:
        """Whether a rig only adds cards to one that does, which makes none but speeds better."""
        return self.needs.sort_by != "decode_tokens_per_s" and any(build.contains(trial.build) for trial in self.good)

    def _enough(self) -> bool:
        named = self._named() if len(self.good) >= self.needs.request.limit else ()
        if len(named) < self.needs.request.limit:
            return False
        if not self.needs.is_by_speed or not self.heap:
            return True
        return self.heap[0][0] >= self._rank(named[-1].build, self._value(named[-1]))

    def _most_decode(self, build: Build, last: Trial | None) -> float:
        """Most tokens per second of one stream that a rig may reach.

        Everything is read once per token; and cards more than in `last` help in proportion, those that read in turn
        not at all unless they are of a faster kind.
        """
        in_turn = self.needs.reads_in_turn
        least_s = least_decode_s(build, self.floor, in_turn=in_turn)
        bound = 1 / least_s if least_s else float("inf")
        if last is not None and last.decode_tokens_per_s is not None:
            bound = min(bound, last.decode_tokens_per_s * _growth(build, last.build, in_turn=in_turn))
        return bound

    def _bound(self, build: Build, last: Trial | None) -> float | None:
        """The best value of the key that a rig may have; None where the key does not depend on speed."""
        if not self.needs.is_by_speed:
            return None
        streams = self.needs.request.workload.parallel
        decode = self._most_decode(build, last)
        by = {"decode_tokens_per_s_per_w": build.power_w, "decode_tokens_per_s_per_price": build.price}
        if self.needs.sort_by not in by:
            return decode
        return decode * streams / (by[self.needs.sort_by] or 1e-9)

    def _value(self, trial: Trial) -> float | None:
        values = {
            "decode_tokens_per_s": trial.decode_tokens_per_s,
            "decode_tokens_per_s_per_w": trial.per_w,
            "decode_tokens_per_s_per_price": trial.per_price,
        }
        return values.get(self.needs.sort_by)

    def _rank(self, build: Build, value: float | None) -> Rank:
        """Lower is better: the key, then cards, power and price."""
        power = float("inf") if build.power_w is None else build.power_w
        price = float("inf") if build.price is None else build.price
        first = {"price": price, "power_w": power, "cards": build.cards}.get(self.needs.sort_by, -(value or 0.0))
        return (first, build.cards, power, price)


def search(needs: Needs, floor: Floor, chains: Sequence[Chain], planner: Plans) -> Found:
    """Rigs that do what was asked, best first."""
    return _Search(needs=needs, floor=floor, planner=planner, chains=chains).run()


def _growth(build: Build, last: Build, *, in_turn: bool) -> float:
    """How many times as fast as `last` a rig may be that has all its cards and more, by what its cards can read.

    Cards that read in turn: at most as if all lay on the fastest kind where it lay on the slowest.
    """
    if in_turn:
        here, there = max(_bandwidths(build)), min(_bandwidths(last))
    else:
        here, there = build.bandwidth_bytes_per_s or 0.0, last.bandwidth_bytes_per_s or 0.0
    return here / there if here and there else float("inf")


def _bandwidths(build: Build) -> list[float]:
    return [kind.bandwidth_bytes_per_s or 0.0 for kind, _ in build.parts]


def _is_no_gain(trial: Trial, other: Trial) -> bool:
    """Whether a rig has all the cards of another one and more, and is no faster than runs of one build differ."""
    here, there = trial.decode_tokens_per_s, other.decode_tokens_per_s
    more = trial.build.cards > other.build.cards and trial.build.contains(other.build)
    return more and (here is None or there is None or here < there * LEAST_GAIN)
