"""The cards of a rig as stages of a layer split: time and bytes of any range of slots, and how far memory reaches."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf
from typing import Final

from service.core.engines.llamacpp.question import Choice
from service.core.engines.llamacpp.range_sizes import range_sizes
from service.core.engines.llamacpp.reads import read_kv_bytes, read_shape, read_weights_bytes
from service.core.engines.llamacpp.search.judge import TIE_FRACTION, CardTimes, Judge, Overlap
from service.core.engines.llamacpp.search.layer_split import Division, Reach, Stage, fastest_division
from service.core.engines.llamacpp.search.learned import Learned, Part
from service.core.types import Backend

NARROWINGS: Final = 8
"""Looks for the best length of the longest stage, each leaving 0.62 of the range."""

_GOLDEN: Final = (5**0.5 - 1) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotSizes:
    """Running sums over slots: bytes in memory by backend, bytes read per decode step, and weights for a prompt."""

    held: dict[str, Sequence[int]]
    decode_read: Sequence[float]
    prefill_read: Sequence[float]

    def lighter_before(self, lighter: "SlotSizes", n: int) -> "SlotSizes":
        """The first `n` slots as in `lighter`, the others as here."""

        def joined(light: Sequence[float], full: Sequence[float]) -> list[float]:
            return [*light[:n], *(light[n] + each - full[n] for each in full[n:])]

        return SlotSizes(
            held={backend: joined(lighter.held[backend], sums) for backend, sums in self.held.items()},  # type: ignore[misc]
            decode_read=joined(lighter.decode_read, self.decode_read),
            prefill_read=joined(lighter.prefill_read, self.prefill_read),
        )


def slot_sizes(judge: Judge, choice: Choice) -> SlotSizes:
    """Sums of a choice's weights and caches, whatever card holds which of them."""
    sizes = range_sizes(choice.question, choice)
    question, caches, assumptions = choice.question, sizes.caches, judge.assumptions
    hp, workload = question.hp, judge.question.workload
    shape = read_shape(question.model, hp)
    depth = workload.cached_tokens + workload.prompt_tokens + workload.output_tokens / 2
    held: dict[str, Sequence[int]] = {}
    n = hp.n_layer_all + 1
    for position in choice.placement.device_order:
        backend = sizes.backends[position]
        if backend not in held:
            sums = sizes.sums[position].held
            cached = [caches.bytes_between(0, min(p, n - 1), backend) for p in range(n + 1)]
            held[backend] = [weights.weights_bytes + kv for weights, kv in zip(sums, cached, strict=True)]
            held[backend][n] += sizes.output_bytes  # type: ignore[index]
    card = choice.placement.device_order[0]
    sums, backend = sizes.sums[card].held, sizes.backends[card]
    decode_read: list[float] = [read_weights_bytes(each, shape, tokens=workload.parallel) for each in sums]
    prefill_read: list[float] = [read_weights_bytes(each, shape) for each in sums]
    if not assumptions.ignore_kv_reads:
        reads = _cache_reads(choice, backend, depth, n)
        decode_read = [read + workload.parallel * kv for read, kv in zip(decode_read, reads, strict=True)]
    decode_read[n] += sizes.output_bytes
    prefill_read[n] += sizes.output_bytes
    return SlotSizes(held=held, decode_read=decode_read, prefill_read=prefill_read)


def _cache_reads(choice: Choice, backend: Backend, depth_tokens: float, n: int) -> list[int]:
    """Cache read for one token by the layers before each slot."""
    hp, caches = choice.question.hp, choice.placement.caches
    layers = [
        read_kv_bytes(hp, caches, il, il + 1, backend, kv_bytes=caches.bytes_between(il, il + 1, backend),
                      depth_tokens=depth_tokens)
        for il in range(n - 1)
    ]  # fmt: skip
    sums = [0, *accumulate(layers)]
    return [*sums, sums[-1]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Divider:
    """Everything a division is made from.

    order: cards as positions of the rig. host: times of the host where it may take slots. lighter_before: blocks before
    this one hold no experts.
    """

    judge: Judge
    order: Sequence[int]
    times: Sequence[CardTimes]
    overlap: Overlap
    sizes: SlotSizes
    learned: Learned
    host: CardTimes | None = None
    lighter_before: int = 0
    all_cards: bool = False

    def divide(self, *, pipelined: bool) -> Division | None:
        """The fastest division as far as memory is known, with a pipeline over the cards or without."""
        stages = self._stages(pipelined=pipelined)
        host = None if self.host is None else self._seconds(self.host, Overlap())
        found = fastest_division(stages, host_before=host, all_cards=self.all_cards)
        if found is None or not pipelined or not self.overlap.longest_share:
            return found
        return self._shorter_stages(stages, found)

    def _seconds(self, times: CardTimes, overlap: Overlap) -> list[float]:
        workload, sizes = self.judge.question.workload, self.sizes
        per_read = workload.output_tokens * times.decode_s / sizes.decode_read[-1] if sizes.decode_read[-1] else 0.0
        per_work = self._prefill_s(times) * overlap.sum_share
        return [
            per_read * read + per_work * work
            for read, work in zip(sizes.decode_read, sizes.prefill_read, strict=True)
        ]  # fmt: skip

    def _prefill_s(self, times: CardTimes) -> float:
        """Prefill of all streams on a card, per byte that it reads of the weights."""
        whole = self.sizes.prefill_read[-1]
        return self.judge.question.workload.parallel * times.prefill_s / whole if whole else 0.0

    def _stages(self, *, pipelined: bool) -> list[Stage]:
        overlap = self.overlap if pipelined else Overlap()
        gpus = self.judge.question.rig.gpus
        made: dict[tuple[object, int | None], Stage] = {}
        stages = []
        for position, times in zip(self.order, self.times, strict=True):
            key = (gpus[position], position if self.learned.by_card else None)
            if key not in made:
                per_work = self._prefill_s(times) * overlap.longest_share
                made[key] = Stage(
                    seconds_before=self._seconds(times, overlap),
                    bytes_before=self.sizes.held[gpus[position].backend],
                    reach=self._reach(position, pipelined=pipelined),
                    further_s=self.judge.question.workload.output_tokens * times.further_s,
                    stage_before=[per_work * work for work in self.sizes.prefill_read] if per_work else (),
                )
            stages.append(made[key])
        return stages

    def _reach(self, position: int, *, pipelined: bool) -> Reach:
        gpu, sizes, lighter = self.judge.question.rig.gpus[position], self.sizes, self.lighter_before
        offloaded = bool(lighter) or self.host is not None
        held = sizes.held[gpu.backend]

        def reach(*, first: bool, last: bool) -> list[int]:
            part = Part(
                card=position if self.learned.by_card else None,
                backend=gpu.backend,
                first=first,
                last=last,
                lighter=False,
                offloaded=offloaded,
                pipelined=pipelined and not (first and last),
            )
            room = gpu.usable_bytes - self.learned.taken_bytes(part)
            with_lighter = gpu.usable_bytes - self.learned.taken_bytes(part._replace(lighter=True)) if lighter else room
            with_lighter = min(with_lighter, room)
            return [each + (with_lighter if p < lighter else room) for p, each in enumerate(held)]

        first, last = reach(first=True, last=False), reach(first=False, last=True)
        both = reach(first=True, last=True)
        return Reach(first=first, middle=reach(first=False, last=False), first_and_last=both, last=last)

    def _shorter_stages(self, stages: Sequence[Stage], found: Division) -> Division:
        """A division whose longest stage is shorter, where the whole is faster for it.

        The least time under a bound on the longest stage falls as the bound grows, ever more slowly, so that the best
        bound is found by narrowing a range.
        """
        high = _longest(stages, found)
        whole = [stage.stage_before[-1] for stage in stages]
        low = 1 / sum(1 / each for each in whole) if all(whole) else 0.0
        best, best_s = found, found.seconds + high
        if high - low < TIE_FRACTION * best_s:
            return best
        looked: dict[float, float] = {}

        def seconds(bound: float) -> float:
            nonlocal best, best_s
            if bound not in looked:
                division = fastest_division(stages, longest=bound, all_cards=self.all_cards)
                looked[bound] = inf
                if division is not None:
                    looked[bound] = division.seconds + _longest(stages, division)
                    if looked[bound] < best_s:
                        best, best_s = division, looked[bound]
            return looked[bound]

        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        for _ in range(NARROWINGS):
            if seconds(left) < inf and seconds(left) <= seconds(right):
                high, right = right, left
                left = high - _GOLDEN * (high - low)
            else:
                low, left = left, right
                right = low + _GOLDEN * (high - low)
        return best


def _longest(stages: Sequence[Stage], division: Division) -> float:
    return max(
        stage.stage_before[end] - stage.stage_before[first]
        for stage, (first, end) in zip(stages, division.ranges, strict=True)
    )
