"""How long one decode step takes: reading, attention, launches, and what cards tell each other."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from typing import NamedTuple

from service.core.speed import Assumptions, Basis, Limit, Step
from service.core.timing.constants import OLD_DECODE_BEFORE, REORDERED_SINCE
from service.core.timing.host import reading_or_computing_s
from service.core.timing.processor import Processor, Processors
from service.core.timing.reductions import exchange_s, meeting_s
from service.core.timing.work import Arrangement, Part, Work

_WORD_BYTES = 4
# a build of no stated date is newer than every change, but has what no build has as little as others
_NEWEST = date.max - timedelta(days=1)
# tokens of a step up to which matrices are multiplied vector by vector
_VECTOR_TOKENS = 8
_LEAST_SURE_FIRST: tuple[Basis, ...] = ("assumed", "modelled", "fitted", "measured")


class PartTime(NamedTuple):
    """Time of one card or of the host in a step, by what it does.

    reading_s: its weights. attention_s: its cache, or the arithmetic on it. batch_s: arithmetic of the streams beyond
    the first. launches_s: kernels, and the token or the hand-over.
    """

    name: str
    read_bytes: int = 0
    reading_s: float = 0.0
    attention_s: float = 0.0
    batch_s: float = 0.0
    launches_s: float = 0.0

    @property
    def s(self) -> float:
        """All of it."""
        return self.reading_s + self.attention_s + self.batch_s + self.launches_s


@dataclass(frozen=True, kw_only=True)
class Decode:
    """One decode step of all streams: its time per device, for the host and for the cards' meetings.

    counted: the cards whose times add up.
    """

    step_s: float
    cards: tuple[PartTime, ...]
    counted: tuple[PartTime, ...]
    host: PartTime
    meetings: int
    meetings_s: float
    limited_by: Limit
    basis: Basis

    @cached_property
    def device_s(self) -> tuple[float, ...]:
        """Time of every card."""
        return tuple([card.s for card in self.cards])

    @property
    def host_s(self) -> float:
        """Time of the host."""
        return self.host.s

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The parts that take time, in order, in words."""
        steps: list[Step] = []
        for part in (*self.counted, self.host):
            if part.reading_s > 0:
                steps.append(Step(f"{part.name} reads {part.read_bytes / 1e9:.2f} GB", part.reading_s))
            if part.attention_s > 0:
                steps.append(Step(f"{part.name} attends to what is cached", part.attention_s))
            if part.batch_s > 0:
                steps.append(Step(f"{part.name} computes for the step's further tokens", part.batch_s))
            if part.launches_s > 0:
                steps.append(Step(f"{part.name} fixed time", part.launches_s))
        if self.meetings_s > 0:
            steps.append(Step(f"{self.meetings} meetings of the cards", self.meetings_s))
        return tuple(steps)


def decode(work: Work, processors: Processors, assumptions: Assumptions) -> Decode | None:
    """Time of one decode step; None where a card that works has no known bandwidth.

    One card after the other, times add up. Cards that share every layer read at the same time and meet in between: the
    slowest counts, and the meetings.
    """
    together, seen = work.arrangement != "serial", False
    cards: list[PartTime] = []
    for part, processor in zip(work.cards, processors.cards, strict=True):
        if not (part.dense_bytes or part.expert_bytes or part.cache_bytes):
            cards.append(PartTime(name=processor.name))
            continue
        if processor.reading_bytes_per_s is None:
            return None
        cards.append(part_time(work, part, processor, assumptions, follows=seen and not together))
        seen = True
    host = _host_time(work, processors.host)
    busy = [card for card in cards if card.read_bytes or card.s]
    counted = counted_cards(work.arrangement, busy)
    meetings = work.exchange.reductions if together and len(busy) > 1 else 0
    meetings_s = 0.0
    if meetings:
        meetings_s = meetings * meeting_s(work, processors, len(busy))
        meetings_s += exchange_s(work, processors, len(busy), work.step_tokens) if work.step_tokens > 1 else 0.0
    return Decode(
        step_s=sum([card.s for card in counted]) + host.s + meetings_s,
        cards=tuple(cards),
        counted=counted,
        host=host,
        meetings=meetings,
        meetings_s=meetings_s,
        limited_by=_limit(counted, host, meetings_s),
        basis=_basis(work, processors),
    )


def counted_cards(arrangement: Arrangement, busy: Sequence[PartTime]) -> tuple[PartTime, ...]:
    """The cards whose times add up: all in turn, or the slowest of those that work at the same time.

    Split by rows, one thread launches every matrix on every card, so that all their launches add to the slowest's.
    """
    if arrangement == "serial" or len(busy) < 2:
        return tuple(busy)
    slowest = max(busy, key=lambda card: card.s)
    if arrangement == "row":
        slowest = slowest._replace(launches_s=sum([card.launches_s for card in busy]))
    return (slowest,)


def part_time(
    work: Work, part: Part, processor: Processor, assumptions: Assumptions, *, follows: bool = False
) -> PartTime:
    """Time of a card that works; follows: it takes over from another card instead of starting the token.

    The rates are those of the processor's constants, under a power limit less of them.
    """
    keeps, rate = processor.limited.decode_fraction, processor.reading_bytes_per_s
    reading_s = (part.dense_bytes + work.experts_read(part, work.step_tokens)) / rate / keeps if rate else 0.0
    reading_s = reading_or_computing_s(reading_s * scattering(work, processor), work, part, processor)
    if assumptions.fixed_s_per_device is not None:
        launches_s = assumptions.fixed_s_per_device
    else:
        launches_s = fixed_s(work, part, processor, follows=follows)
    return PartTime(
        name=processor.name,
        read_bytes=work.read_in_step(part),
        reading_s=reading_s,
        attention_s=0.0 if assumptions.ignore_kv_reads else attention_s(work, part, processor) / keeps,
        batch_s=batch_s(work, part, processor) / keeps if work.step_tokens > 1 else 0.0,
        launches_s=launches_s,
    )


def scattering(work: Work, processor: Processor) -> float:
    """How much longer weights take whose blocks nothing lays out anew, so that lanes read with gaps between.

    Most where blocks are no whole number of words: one of Q8_0 has 34 bytes, which lie across the lines of a cache.
    Source: llama.cpp pull requests 21527 (Q8_0, 21 % of the bandwidth before and 66 % after) and 25064 (Q2_K, 1.25).
    """
    reordered = REORDERED_SINCE.get(processor.backend)
    if reordered is None:
        return 1.0
    known, factor = processor.constants, 1.0
    for each, share in work.weights.type_fractions:
        since = reordered.get(each.name, date.max)
        if each.block_elements == 1 or since <= (work.built or _NEWEST):
            continue
        slower = known.scattered_factor if each.block_bytes % _WORD_BYTES else known.unordered_factor
        factor += share * (slower - 1.0)
    return factor


def attention_s(work: Work, part: Part, processor: Processor) -> float:
    """Time to read the caches of all streams, or to compute on them if that takes longer.

    Tokens of one stream read its cache once, and each computes on it. Without flash attention the products are written
    out in between, which takes a multiple.
    """
    reading_s = computing_s = 0.0
    if processor.caching_bytes_per_s:
        reading_s = part.cache_bytes / processor.caching_bytes_per_s
    if processor.attention_flops_per_s:
        computing_s = work.queries * part.attention_flops / processor.attention_flops_per_s
    factor = 1.0 if work.flash_attention else processor.constants.unfused_factor
    return work.streams * max(reading_s, computing_s) * factor


def batch_s(work: Work, part: Part, processor: Processor) -> float:
    """Arithmetic of a step's tokens beyond the first: of further streams, and of drafts that are verified."""
    if processor.prompt_flops_per_s is None:
        return 0.0
    rate = processor.prompt_flops_per_s[work.weights.half_precision] * processor.constants.batch_fraction
    streams_s = (work.streams - 1) * work.flops(part) / rate
    return streams_s + verified_s(work, part, processor, rate) if work.queries > 1 else streams_s


def verified_s(work: Work, part: Part, processor: Processor, batched_flops_per_s: float) -> float:
    """Arithmetic of drafts that are verified beside their streams' own tokens.

    Up to eight tokens in all go through the kernels that multiply with vectors, which cost every token its own
    arithmetic; more of them through those for matrices, which do not take longer than eight vectors.

    Source: MMVQ_MAX_BATCH_SIZE, ggml/src/ggml-cuda/mmvq.cuh; ne11_mm_min, ggml/src/ggml-metal/ggml-metal-ops.cpp
    (llama.cpp in llama-cpp-python 0.3.36); verification on 20 machines, tests/speed/speculation.jsonl.
    """
    further, flops = work.streams * (work.queries - 1), work.flops(part)
    matrices_s = further * flops / batched_flops_per_s
    if processor.vector_flops_per_s is None:
        return matrices_s
    return max(matrices_s, min(further, _VECTOR_TOKENS - 1) * flops / processor.vector_flops_per_s)


def fixed_s(work: Work, part: Part, processor: Processor, *, follows: bool) -> float:
    """Time that does not depend on bytes: every kernel's own, and the token's start or its hand-over."""
    row = processor.constants
    age = row.old_build_factor if work.built is not None and work.built < OLD_DECODE_BEFORE else 1.0
    launches_s = part.kernels * row.kernel_s + part.expert_kernels * row.expert_kernel_s
    if work.arrangement == "tensor" and work.busy > 1:
        launches_s += part.expert_kernels * row.expert_slice_s
    return age * launches_s + row.device_s if follows else age * (launches_s + row.token_s)


def _host_time(work: Work, processor: Processor) -> PartTime:
    if not (work.host.dense_bytes or work.host.expert_bytes or work.host.cache_bytes):
        return PartTime(name="host")
    return part_time(work, work.host, processor, Assumptions())


def _limit(counted: Sequence[PartTime], host: PartTime, meetings_s: float) -> Limit:
    devices_s = sum([card.s for card in counted])
    if host.s > max(devices_s, meetings_s):
        return "host_memory"
    if meetings_s > devices_s:
        return "interconnect"
    computing_s = sum([card.batch_s for card in counted])
    return "compute" if computing_s > devices_s / 2 else "memory_bandwidth"


def _basis(work: Work, processors: Processors) -> Basis:
    """That of the least known processor that works."""
    used = [
        processor.basis
        for part, processor in zip((*work.cards, work.host), (*processors.cards, processors.host), strict=True)
        if part.dense_bytes or part.expert_bytes or part.cache_bytes
    ]
    return min(used, key=_LEAST_SURE_FIRST.index, default=processors.host.basis)
