"""Advice to leave cards out."""

from collections.abc import Iterator
from dataclasses import replace

from service.contract.plan import Advice
from service.core.engines.llamacpp.choices import largest_context
from service.core.engines.llamacpp.search.judge import LEAST_GAIN
from service.core.engines.llamacpp.speed import decode_on_one
from service.planning.findings import Findings


def single_fast_gpu(findings: Findings) -> Iterator[Advice]:
    """One card that holds everything decodes faster than a layer split, whose stages add up."""
    decode = findings.speed.decode
    busy = sum(1 for device in findings.placement.devices if device.weights_bytes)
    if decode is None or busy < 2 or findings.placement.split_mode != "layer" or findings.offloaded:
        return
    steps = ((step.step_s, index) for index in _alone(findings) if (step := decode_on_one(findings.speed, index)))
    step_s, index = min(steps, default=(decode.step_s, 0))
    if step_s * LEAST_GAIN > decode.step_s:
        return
    gpu = findings.rig.gpus[index]
    gain = decode.step_s / step_s
    yield Advice(
        code="single-fast-gpu",
        message=f"All of it fits on card {index} ({gpu.slug}) alone, which decodes {gain:.2f} times as fast: stages of "
        f"a layer split add up. Use -sm none -mg {index}.",
        numbers={"gpu_index": index, "gpu": gpu.slug, "decode_tokens_per_s": 1 / step_s, "gain": gain},
    )


def _alone(findings: Findings) -> Iterator[int]:
    """The first of each kind of card that has room for everything at this context."""
    held_bytes = sum([device.weights_bytes + device.kv_bytes for device in findings.placement.devices])
    gpus, question = findings.rig.gpus, findings.choice.question
    for main_gpu, index in enumerate(findings.placement.device_order):
        gpu = gpus[index]
        if gpu.usable_bytes < held_bytes or gpus.index(gpu) != index:
            continue
        alone = replace(findings.choice.settings, split_mode="none", main_gpu=main_gpu, tensor_split=None)
        if largest_context(question, alone) >= findings.choice.context_tokens:
            yield index
