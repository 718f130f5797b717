"""The cards of a rig as stages of a layer split: time and bytes of any range of slots, and how far memory reaches.

Source: stages follow each other, several batches at once where the engine pipelines, src/llama-context.cpp:430-462
(llama.cpp in llama-cpp-python 0.3.36).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from math import inf
from typing import Final, NamedTuple

from service.core.engines.llamacpp.kv_cache import LayerSizes
from service.core.engines.llamacpp.question import Choice
from service.core.engines.llamacpp.range_sizes import range_sizes
from service.core.engines.llamacpp.reads import read_kv_bytes, read_shape, read_weights_bytes
from service.core.engines.llamacpp.search.card_times import CardTimes, Overlap, PartTimes
from service.core.engines.llamacpp.search.judge import SAME_FRACTION, Judge
from service.core.engines.llamacpp.search.layer_split import Division, Range, Stage, fastest_division
from service.core.engines.llamacpp.search.learned import Kinds, Learned, Part
from service.core.engines.llamacpp.search.reach import Reach, reach_of
from service.core.types import Backend

NARROWINGS: Final = 8
"""Looks for the best length of the longest stage, each leaving 0.62 of the range."""

_GOLDEN: Final = (5**0.5 - 1) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotSizes:
    """Running sums over slots: bytes in memory by backend, and the blocks' shares of a decode step and of a prompt.

    Shares are of all blocks with their experts; the output layer has none.
    """

    held: dict[str, Sequence[int]]
    decode_share: Sequence[float]
    prefill_share: Sequence[float]

    def least_bytes(self, lighter: "SlotSizes", n: int) -> int:
        """Bytes of all slots, the first `n` as in `lighter`, in memory of whatever backend they take least of."""
        return min([lighter.held[backend][n] + sums[-1] - sums[n] for backend, sums in self.held.items()])

    def lighter_before(self, lighter: "SlotSizes", n: int) -> "SlotSizes":
        """The first `n` slots as in `lighter`, the others as here."""

        def joined(light: Sequence[float], full: Sequence[float]) -> list[float]:
            return [*light[:n], *(light[n] + each - full[n] for each in full[n:])]

        return SlotSizes(
            held={backend: joined(lighter.held[backend], sums) for backend, sums in self.held.items()},  # type: ignore[misc]
            decode_share=joined(lighter.decode_share, self.decode_share),
            prefill_share=joined(lighter.prefill_share, self.prefill_share),
        )


def slot_sizes(judge: Judge, choice: Choice, whole: Choice | None = None) -> SlotSizes:
    """Sums of a choice's weights and caches, whatever card holds which of them.

    whole: the same with all experts, where `choice` is without some.
    """
    decode, prefill = _block_reads(judge, choice)
    all_decode, all_prefill = (decode, prefill) if whole is None else _block_reads(judge, whole)
    return SlotSizes(
        held=_held(choice),
        decode_share=[read / all_decode[-1] if all_decode[-1] else 0.0 for read in decode],
        prefill_share=[read / all_prefill[-1] if all_prefill[-1] else 0.0 for read in prefill],
    )


def _held(choice: Choice) -> dict[str, Sequence[int]]:
    """Weights and caches of the slots before each, by backend."""
    sizes, n = range_sizes(choice.question, choice), choice.question.hp.n_layer_all + 1
    held: dict[str, Sequence[int]] = {}
    for position in choice.placement.device_order:
        backend = sizes.backends[position]
        if backend not in held:
            cached = _cached(sizes.caches.layer_sizes(backend), n)
            sums = [
                weights.weights_bytes + kv for weights, kv in zip(sizes.sums[position].held, cached, strict=True)
            ]  # fmt: skip
            sums[n] += sizes.output_bytes
            held[backend] = sums
    return held


def _cached(layers: Sequence[LayerSizes], n: int) -> list[int]:
    """Caches of the slots before each of `n`, the last of which, the output layer, has none."""
    columns = [[(count - before[0]) * size_bytes for count in before[:n]] for before, size_bytes in layers]
    sums = list(map(sum, zip(*columns, strict=True))) or [0] * n
    return [*sums, sums[-1]]


def _block_reads(judge: Judge, choice: Choice) -> tuple[list[float], list[float]]:
    """Bytes read for the blocks before each slot, in a decode step of all streams and of weights for a token."""
    sizes, workload = range_sizes(choice.question, choice), judge.question.workload
    hp, card = choice.question.hp, choice.placement.device_order[0]
    sums, shape = sizes.sums[card].held, read_shape(choice.question.model, hp)
    decode: list[float] = [read_weights_bytes(each, shape, tokens=workload.parallel) for each in sums]
    prefill = decode
    if workload.parallel > 1:
        prefill = [read_weights_bytes(each, shape) for each in sums]
    if not judge.assumptions.ignore_kv_reads:
        depth = workload.cached_tokens + workload.prompt_tokens + workload.output_tokens / 2
        reads = _cache_reads(choice, sizes.backends[card], depth, hp.n_layer_all)
        decode = [read + workload.parallel * kv for read, kv in zip(decode, reads, strict=True)]
    return [*decode[:-1], decode[-2]], [*prefill[:-1], prefill[-2]]


def _cache_reads(choice: Choice, backend: Backend, depth_tokens: float, n_layer_all: int) -> list[int]:
    """Cache read for one token by the layers before each slot, looked up once for all layers with the same caches."""
    hp, caches = choice.question.hp, choice.placement.caches
    befores = [before for before, _ in caches.layer_sizes(backend)]
    kinds = [tuple([before[il + 1] - before[il] for before in befores]) for il in range(n_layer_all)]
    reads = {
        kind: read_kv_bytes(hp, caches, il, il + 1, backend, kv_bytes=caches.bytes_between(il, il + 1, backend),
                            depth_tokens=depth_tokens)
        for kind, il in {kind: il for il, kind in enumerate(kinds)}.items()
    }  # fmt: skip
    sums = [0, *accumulate([reads[kind] for kind in kinds])]
    return [*sums, sums[-1]]


class SlotTimes(NamedTuple):
    """Times of a card as its stage has them, whatever its memory."""

    seconds_before: Sequence[float]
    further_s: float
    stage_before: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Divider:
    """Everything a division is made from.

    order: cards as positions of the rig. host: times of the host where it may take slots. timed: times of slots that
    were asked for, which do not change with what is learned.
    """

    judge: Judge
    order: Sequence[int]
    times: Sequence[CardTimes]
    overlap: Overlap
    sizes: SlotSizes
    kinds: Kinds
    learned: Learned
    host: CardTimes | None = None
    all_cards: bool = False
    timed: dict[tuple[CardTimes, bool], SlotTimes] = field(init=False, default_factory=dict)

    def divide(self, *, pipelined: bool) -> Division | None:
        """The fastest division as far as memory is known, with a pipeline over the cards or without."""
        stages = self._stages(pipelined=pipelined)
        host = None if self.host is None else self._seconds(self.host, Overlap())
        found = fastest_division(stages, host_before=host, all_cards=self.all_cards)
        if found is None or not pipelined or not self.overlap.longest_share:
            return found
        best = self._shorter_stages(stages, found)
        return replace(best, seconds=best.seconds + _longest(stages, best))

    def estimate_s(self, ranges: Sequence[Range], *, pipelined: bool) -> float:
        """Time of a request for a division by sums over slots, whether it fits or not."""
        cards = [self._slot_times(times, pipelined=pipelined) for times in self.times]
        used = [each for each in zip(cards, ranges, strict=True) if each[1][1] > each[1][0]]
        times = [card.seconds_before[end] - card.seconds_before[first] for card, (first, end) in used]
        longest = [
            card.stage_before[end] - card.stage_before[first] for card, (first, end) in used if card.stage_before
        ]
        on_host = 0.0 if self.host is None else self._seconds(self.host, Overlap())[ranges[0][0]]
        return on_host + sum(times) + sum(card.further_s for card, _ in used[1:]) + max(longest, default=0.0)

    def may_hold(self, ranges: Sequence[Range]) -> bool:
        """Whether every card has room for its slots alone; where one has none, the division does not fit."""
        gpus, held = self.judge.question.rig.gpus, self.sizes.held
        return all(
            held[gpus[card].backend][end] - held[gpus[card].backend][first] <= gpus[card].usable_bytes
            for card, (first, end) in zip(self.order, ranges, strict=True)
        )

    def _seconds(self, times: CardTimes, overlap: Overlap) -> list[float]:
        """Time of a request for the slots before each, without what overlaps."""
        workload = self.judge.question.workload
        decode = _spread(times.decode, self.sizes.decode_share, workload.output_tokens)
        prefill = _spread(times.prefill, self.sizes.prefill_share, workload.parallel * overlap.sum_share)
        return [step + prompt for step, prompt in zip(decode, prefill, strict=True)]

    def _slot_times(self, times: CardTimes, *, pipelined: bool) -> SlotTimes:
        key = (times, pipelined)
        if key not in self.timed:
            overlap, workload = self.overlap if pipelined else Overlap(), self.judge.question.workload
            longest = workload.parallel * overlap.longest_share
            self.timed[key] = SlotTimes(
                seconds_before=self._seconds(times, overlap),
                further_s=workload.output_tokens * times.further_s,
                stage_before=_spread(times.prefill, self.sizes.prefill_share, longest) if longest else (),
            )
        return self.timed[key]

    def _stages(self, *, pipelined: bool) -> list[Stage]:
        gpus = self.judge.question.rig.gpus
        made: dict[tuple[object, int | None], Stage] = {}
        stages = []
        for position, times in zip(self.order, self.times, strict=True):
            key = (gpus[position], position if self.learned.by_card else None)
            if key not in made:
                slots = self._slot_times(times, pipelined=pipelined)
                made[key] = Stage(
                    seconds_before=slots.seconds_before,
                    reach=self._reach(position, pipelined=pipelined),
                    further_s=slots.further_s,
                    stage_before=slots.stage_before,
                )
            stages.append(made[key])
        return stages

    def _reach(self, position: int, *, pipelined: bool) -> Reach:
        gpu = self.judge.question.rig.gpus[position]
        part = Part(
            card=position if self.learned.by_card else None,
            backend=gpu.backend,
            first=False,
            last=False,
            offloaded=self.kinds.lighter > 0 or self.host is not None,
            pipelined=pipelined,
        )
        return reach_of(part, gpu.usable_bytes, self.sizes.held[gpu.backend], self.kinds, self.learned)

    def _shorter_stages(self, stages: Sequence[Stage], found: Division) -> Division:
        """A division whose longest stage is shorter, where the whole is faster for it.

        The least time under a bound on the longest stage falls as the bound grows, ever more slowly, so that the best
        bound is found by narrowing a range.
        """
        high = _longest(stages, found)
        whole = [stage.stage_before[-1] for stage in stages]
        low = 1 / sum(1 / each for each in whole) if all(whole) else 0.0
        best, best_s = found, found.seconds + high
        if high - low < SAME_FRACTION * best_s:
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


def _spread(times: PartTimes, shares: Sequence[float], count: float) -> list[float]:
    """Time of the slots before each, `count` times: blocks by their shares, and the output layer at the end."""
    blocks_s = count * times.blocks_s
    spread = [blocks_s * share for share in shares]
    spread[-1] += count * times.output_s
    return spread


def _longest(stages: Sequence[Stage], division: Division) -> float:
    return max(
        stage.stage_before[end] - stage.stage_before[first]
        for stage, (first, end) in zip(stages, division.ranges, strict=True)
    )
