"""How fast a prompt is processed: arithmetic of every stage, overlapped where the engine pipelines."""

from collections.abc import Sequence
from dataclasses import dataclass

from service.core.speed import Processor
from service.core.speed_constants import ATTENTION_RATE_FRACTION, BACKENDS, PIPELINED_SHARE


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillWork:
    """What one device or the host does for a whole prompt.

    flops: of the weight matrices; expert_flops: the part of them in routed experts; attention_flops: of attention over
    the prompt and what is cached; weights_bytes: of all weights, which every ubatch reads once.
    """

    flops: float = 0.0
    expert_flops: float = 0.0
    attention_flops: float = 0.0
    weights_bytes: int = 0


def stage_s(work: PrefillWork, processor: Processor, *, ubatches: int, rows_per_expert: float) -> float | None:
    """Time of one stage alone: its arithmetic, or the reading of its weights if that takes longer.

    Matrices of routed experts get few rows each, which costs (1 + R / rows) times their arithmetic.
    None where a rate is not known. Source: speed study (service/core/speed_constants.py).
    """
    rate = processor.prefill_flops_per_s
    if not rate or not processor.bandwidth_bytes_per_s:
        return None
    crowding = 1 + BACKENDS[processor.backend].expert_rows / rows_per_expert if rows_per_expert else 1.0
    matrices_s = (work.flops - work.expert_flops + work.expert_flops * crowding) / rate
    attention_s = work.attention_flops / (rate * ATTENTION_RATE_FRACTION)
    reading_s = ubatches * work.weights_bytes / (processor.bandwidth_bytes_per_s * processor.bandwidth_fraction)
    return max(matrices_s + attention_s, reading_s)


def prefill_s(
    stages: Sequence[tuple[PrefillWork, Processor]],
    host: tuple[PrefillWork, Processor],
    *,
    ubatches: int,
    rows_per_expert: float = 0.0,
    pipelined: bool = False,
    together: bool = False,
    sync_s: float = 0.0,
) -> float | None:
    """Time of a whole prompt over devices and host; None where a rate that counts is not known.

    Stages follow each other; a layer split with several ubatches overlaps a part of them. What lies on the host is
    computed there or copied to the first card that computes it, whichever is shorter.

    Source: speed study; op offload of batches, ggml/src/ggml-backend.cpp (llama.cpp in llama-cpp-python 0.3.36).
    """
    times = []
    for work, processor in stages:
        if work.weights_bytes == 0:
            continue
        time = stage_s(work, processor, ubatches=ubatches, rows_per_expert=rows_per_expert)
        if time is None:
            return None
        times.append(time)
    total = max(times, default=0.0) if together else sum(times)
    if pipelined and len(times) > 1:
        overlapped = (sum(times) + (ubatches - 1) * max(times)) / ubatches
        total = (1 - PIPELINED_SHARE) * sum(times) + PIPELINED_SHARE * overlapped
    return total + ubatches * sync_s + _host_s(host, stages, ubatches, rows_per_expert)


def _host_s(
    host: tuple[PrefillWork, Processor],
    stages: Sequence[tuple[PrefillWork, Processor]],
    ubatches: int,
    rows_per_expert: float,
) -> float:
    work, processor = host
    if work.weights_bytes == 0:
        return 0.0
    ways = [stage_s(work, processor, ubatches=ubatches, rows_per_expert=rows_per_expert)]
    for _, card in stages[:1]:
        if card.link_bytes_per_s:
            copying_s = ubatches * work.weights_bytes / card.link_bytes_per_s
            computing_s = stage_s(work, card, ubatches=ubatches, rows_per_expert=rows_per_expert)
            ways.append(None if computing_s is None else copying_s + computing_s)
    return min(way for way in ways if way is not None)
