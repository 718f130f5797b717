"""Advice to leave cards out."""

from collections.abc import Iterator
from dataclasses import replace

from service.contract.plan import Advice
from service.core.engines.llamacpp.choices import largest_context
from service.core.engines.llamacpp.search.judge import LEAST_GAIN
from service.core.engines.llamacpp.speed import step_on_one_s
from service.planning.findings import Findings


def single_fast_gpu(findings: Findings) -> Iterator[Advice]:
    """One card that holds everything decodes faster than a layer split, whose stages add up."""
    decode = findings.speed.decode
    if decode is None or len(findings.busy) < 2 or findings.placement.split_mode != "layer" or findings.offloaded:
        return
    steps = [
        (step_s, index)
        for index in _first_of_their_kind(findings)
        if (step_s := step_on_one_s(findings.speed, index)) is not None and step_s * LEAST_GAIN <= decode.step_s
    ]
    fastest = next(((step_s, index) for step_s, index in sorted(steps) if _has_room(findings, index)), None)
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


def _first_of_their_kind(findings: Findings) -> Iterator[int]:
    """The first of each kind of card that has room for weights and caches."""
    held_bytes = sum([device.weights_bytes + device.kv_bytes for device in findings.placement.devices])
    gpus = findings.rig.gpus
    for index in findings.placement.device_order:
        if gpus[index].usable_bytes >= held_bytes and gpus.index(gpus[index]) == index:
            yield index


def _has_room(findings: Findings, index: int) -> bool:
    """Whether a card has room for everything at this context."""
    main_gpu = findings.placement.device_order.index(index)
    alone = replace(findings.choice.settings, split_mode="none", main_gpu=main_gpu, tensor_split=None)
    return largest_context(findings.choice.question, alone) >= findings.choice.context_tokens
