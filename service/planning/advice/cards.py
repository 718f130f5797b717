"""What several cards do for a model, and how they are best put to work."""

from collections.abc import Iterator, Sequence
from functools import lru_cache

from service.contract.plan import Advice
from service.core.engines.llamacpp.search.judge import LEAST_GAIN
from service.core.engines.llamacpp.search.rivals import RivalKind
from service.core.engines.llamacpp.speed import Speed
from service.core.engines.llamacpp.versions import CHANGES
from service.core.types import Rig
from service.core.units import GIB
from service.planning.alternatives import RunnerUp
from service.planning.findings import Findings


def _other(others: Sequence[RunnerUp], kind: RivalKind) -> Findings | None:
    """A runner-up that fits."""
    found = (each.findings for each in others if each.rival.kind == kind and each.findings.choice.fits)
    return next(found, None)


def _decode_per_s(findings: Findings) -> float:
    return 1 / findings.speed.token_s if findings.speed.token_s else 0.0


def more_cards(findings: Findings, others: Sequence[RunnerUp]) -> Iterator[Advice]:
    """What further cards buy: no speed where one holds everything, but context; or that it can be loaded at all."""
    if findings.placement.split_mode not in ("none", "layer") or not findings.choice.fits or findings.offloaded:
        return
    alone = findings if len(findings.busy) == 1 else _other(others, "one_card")
    shared = findings if len(findings.busy) > 1 else _other(others, "by_free_memory")
    if shared is None or len(shared.busy) <= 1:
        return
    if alone is None:
        if others:
            yield from _needed(findings)
        return
    alone_per_s, shared_per_s = _decode_per_s(alone), _decode_per_s(shared)
    if not alone_per_s or shared_per_s > alone_per_s * LEAST_GAIN:
        return
    card = alone.busy[0]
    yield Advice(
        code="second-card-no-faster",
        message=f"Card {card} ({findings.rig.gpus[card].slug}) alone decodes {alone_per_s:.1f} tokens/s, "
        f"{len(shared.busy)} cards {shared_per_s:.1f}: layers run one after the other, so more cards do not speed up "
        f"what fits on one. {_bought(alone, shared)}",
        numbers={
            "gpu_index": card,
            "decode_tokens_per_s": alone_per_s,
            "shared_decode_tokens_per_s": shared_per_s,
            "max_context_tokens": alone.max_context_tokens,
            "shared_max_context_tokens": shared.max_context_tokens,
        },
    )


def _bought(alone: Findings, shared: Findings) -> str:
    most, together = alone.max_context_tokens, shared.max_context_tokens
    if together <= most:
        return "They buy no context here either."
    return f"They buy context: up to {together:,} instead of {most:,} tokens."


def _needed(findings: Findings) -> Iterator[Advice]:
    needed = sum(need.total_bytes for need in findings.choice.needs[:-1])
    largest = max(gpu.usable_bytes for gpu in findings.rig.gpus)
    if needed <= largest:
        return
    cards = len(findings.busy)
    yield Advice(
        code="second-card-needed",
        message=f"No card holds the {needed / GIB:.1f} GiB by itself, the largest has {largest / GIB:.1f}: it takes "
        f"{cards} cards to load it at this context.",
        numbers={"needed_bytes": needed, "largest_usable_bytes": largest, "cards": cards},
    )


def faster_card(findings: Findings) -> Iterator[Advice]:
    """A layer split over several cards decodes like one card of their mean bandwidth, whatever their number."""
    busy = findings.busy
    if len(busy) < 2 or findings.placement.split_mode != "layer" or findings.offloaded:
        return
    mean = _mean_bandwidth(findings.speed, findings.rig, busy)
    if mean is None:
        return
    held_bytes = sum([findings.choice.needs[index].total_bytes for index in busy])
    yield Advice(
        code="one-faster-card",
        message=f"These {len(busy)} cards take turns, and decode like one of {mean / 1e9:.0f} GB/s, however many there "
        f"are: a single card with {held_bytes / GIB:.0f} GiB and more bandwidth than that beats them.",
        numbers={"mean_bandwidth_bytes_per_s": mean, "needed_bytes": held_bytes, "cards": len(busy)},
    )


@lru_cache(maxsize=512)
def _mean_bandwidth(speed: Speed, rig: Rig, busy: Sequence[int]) -> float | None:
    """Bandwidth of one card that reads as fast as these in turn, None where one of theirs is not known."""
    reads = [(speed.device_reads[index], rig.gpus[index]) for index in busy]
    read_bytes = sum([read for read, _ in reads])
    if not read_bytes or not all(gpu.bandwidth_bytes_per_s for _, gpu in reads):
        return None
    return read_bytes / sum([read / (gpu.bandwidth_bytes_per_s or 1.0) for read, gpu in reads])


def joint_cards(findings: Findings, others: Sequence[RunnerUp]) -> Iterator[Advice]:
    """Whether split mode tensor pays on this rig."""
    joint = _other(others, "together")
    decode = None if joint is None else joint.speed.decode
    if joint is None or decode is None or findings.speed.decode is None:
        return
    decode_gain = findings.speed.decode.step_s / decode.step_s
    prefill_s, joint_prefill_s = findings.speed.prefill_s, joint.speed.prefill_s
    prefill_gain = prefill_s / joint_prefill_s if prefill_s and joint_prefill_s else 1.0
    pays = decode_gain >= LEAST_GAIN
    yield Advice(
        code="tensor-split" if pays else "no-tensor-split",
        message=f"Split mode tensor (experimental) would decode {decode_gain:.2f} times as fast here and process "
        f"prompts {prefill_gain:.2f} times as fast: its {decode.meetings} reductions a token take "
        f"{decode.meetings_s * 1e3:.1f} ms over this link. "
        + ("Measure -sm tensor where answers are long." if pays else "The layer split stays."),
        numbers={
            "decode_gain": decode_gain,
            "prefill_gain": prefill_gain,
            "reductions": decode.meetings,
            "reductions_s": decode.meetings_s,
        },
    )


def row_split(findings: Findings) -> Iterator[Advice]:
    """Split mode row, which old posts advise, where a build still has it."""
    if findings.placement.split_mode != "row":
        return
    removed = next(change for change in CHANGES if change.rule == "no_row_split_on_cuda")
    yield Advice(
        code="row-split-removed",
        message=f"Advice to use -sm row is old: CUDA and ROCm have not had it since {removed.since.isoformat()}. Split "
        "by layer, or measure -sm tensor where the architecture has it.",
        numbers={"removed": removed.since.isoformat(), "pull_request": removed.pull_requests[0]},
    )
