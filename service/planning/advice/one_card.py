"""Advice to leave cards out."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from service.contract.plan import Advice
from service.core.engines.llamacpp.choices import largest_context
from service.core.engines.llamacpp.search.judge import LEAST_GAIN
from service.core.engines.llamacpp.speed import Speed, step_on_one_s
from service.core.types import Rig
from service.planning.findings import Findings


def single_fast_gpu(findings: Findings) -> Iterator[Advice]:
    """One card that holds everything decodes faster than a layer split, whose stages add up."""
    decode = findings.speed.decode
    if decode is None or len(findings.busy) < 2 or findings.placement.split_mode != "layer" or findings.offloaded:
        return
    steps = _faster_alone(findings.speed, findings.rig, findings.placement.device_order)
    fastest = next((each for each in steps if _has_room(findings, each[1])), None) if steps else None
    if fastest is None:
        return
    step_s, index = fastest
    gpu = findings.rig.gpus[index]
    gain = decode.step_s / step_s
    yield Advice(
        code="single-fast-gpu",
        message=f"All of it fits on card {index} ({gpu.slug}) alone, which decodes {gain:.2f} times as fast: stages of "
        f"a layer split add up. Use -sm none -mg {index}.",
        numbers={"gpu_index": index, "gpu": gpu.slug, "decode_tokens_per_s": 1 / step_s, "gain": gain},
    )


@lru_cache(maxsize=512)
def _faster_alone(speed: Speed, rig: Rig, order: Sequence[int]) -> Sequence[tuple[float, int]]:
    """Cards that would decode faster alone with the time of a step on them, the fastest first, one of each kind."""
    first_of_their_kind = [index for index in order if rig.gpus.index(rig.gpus[index]) == index]
    step_s = speed.decode.step_s if speed.decode is not None else 0.0
    alone = [(step_on_one_s(speed, index), index) for index in first_of_their_kind]
    return sorted([(one_s, index) for one_s, index in alone if one_s is not None and one_s * LEAST_GAIN <= step_s])


def _has_room(findings: Findings, index: int) -> bool:
    """Whether a card has room for everything at this context; what it holds without compute buffers says no at once."""
    choice, placement = findings.choice, findings.placement
    held_bytes = sum([device.weights_bytes + device.kv_bytes for device in placement.devices])
    if findings.rig.gpus[index].usable_bytes < held_bytes:
        return False
    main_gpu = placement.device_order.index(index)
    alone = replace(choice.settings, split_mode="none", main_gpu=main_gpu, tensor_split=None)
    return largest_context(choice.question, alone) >= choice.context_tokens
