"""The steps of an answer, one sentence each, with the numbers they used."""

from collections.abc import Iterator, Sequence
from functools import lru_cache

from service.core.architectures.hparams import read_hparams
from service.core.engines.llamacpp.checkpoints import CHECKPOINT_BYTES_PER_S, checkpoints_of
from service.core.engines.llamacpp.companions import ALONE
from service.core.engines.llamacpp.speed import Speed
from service.core.model_facts import model_facts
from service.core.timing.assumed import (
    ASSUMED_HOST_CORES,
    ASSUMED_HOST_FP32_FLOPS,
    ASSUMED_RAM_BANDWIDTH_BYTES_PER_S,
)
from service.core.timing.fitted import FITTED_ON, SOURCE
from service.core.timing.prefill import missing_kernels
from service.core.timing.processor import Processor, Processors
from service.core.timing.ranges import COVERAGE_FRACTION, Width
from service.core.timing.speculation import Speculation
from service.core.types import Model, Rig
from service.core.units import GIB
from service.planning.alternatives import RunnerUp
from service.planning.companion_answer import draft_plan, mmproj_plan
from service.planning.divisions import division_steps
from service.planning.findings import Findings
from service.planning.fit import fit_steps

_COMPANIONS = {"draft": "the draft", "mmproj": "the projector"}


def explanation_of(findings: Findings, others: Sequence[RunnerUp] = ()) -> list[str]:
    """All steps in order; others: what the choice was compared with."""
    return [
        _model_step(findings.model),
        *_memory_steps(findings.rig),
        *fit_steps(findings),
        *_context_steps(findings),
        *_split_steps(findings),
        *division_steps(findings, others),
        *(_companion_steps(findings) if findings.companions is not ALONE else ()),
        *_speed_steps(findings),
    ]


@lru_cache(maxsize=256)
def _model_step(model: Model) -> str:
    facts = model_facts(model)
    return (
        f"{model.name or model.id} is a {model.architecture} model of {read_hparams(model).n_layer} blocks with "
        f"{facts.parameters / 1e9:.2f} billion weights in {facts.tensor_data_bytes / 1e9:.2f} GB."
    )


@lru_cache(maxsize=1024)
def _memory_steps(rig: Rig) -> Sequence[str]:
    steps = (
        f"Of {gpu.slug}, a program gets {gpu.usable_bytes / GIB:.2f} GiB: {gpu.usable_basis}."
        for gpu in dict.fromkeys(rig.gpus)
    )
    return tuple(dict.fromkeys(steps))


def _context_steps(findings: Findings) -> Iterator[str]:
    ctx = findings.placement.ctx
    yield (
        f"A context of {findings.choice.context_tokens:,} tokens becomes {ctx.n_ctx:,} cells"
        + (f" in {ctx.n_stream} streams of {ctx.n_ctx_seq:,}" if ctx.n_stream > 1 else "")
        + f", keys as {ctx.type_k.name} and values as {ctx.type_v.name}, flash attention "
        + ("on." if ctx.flash_attn else "off.")
    )
    ceiling = findings.choice.question.ceiling_tokens(findings.choice.settings)
    found = findings.max_context_tokens
    if found:
        reason = "the most that is asked or trained for" if found == ceiling else "the largest that fits"
        yield f"With these choices up to {found:,} tokens of context fit: {reason}, in steps of 256."
    else:
        yield "With these choices no context fits."


def _split_steps(findings: Findings) -> Iterator[str]:
    placement, settings = findings.placement, findings.choice.settings
    if len(placement.device_order) > 1 and placement.split_mode == "layer" and settings.tensor_split is None:
        fixed = not findings.choice.question.may_balance
        yield "Layers are divided by free memory, as llama.cpp does by itself" + (
            ": with n_gpu_layers stated no other split is looked for." if fixed else "."
        )
    for index, (gpu, device) in enumerate(zip(findings.rig.gpus, placement.devices, strict=True)):
        yield (
            f"Card {index} ({gpu.slug}) holds {device.weights_bytes:,} bytes of weights, {device.kv_bytes:,} of cache "
            f"and {device.compute_bytes:,} of compute buffers."
        )
    yield (
        f"The host holds {placement.host.weights_bytes:,} bytes of weights, {placement.host.kv_bytes:,} of cache and "
        f"{placement.host.compute_bytes:,} of compute buffers."
    )


def _companion_steps(findings: Findings) -> Iterator[str]:
    draft, projector = draft_plan(findings), mmproj_plan(findings)
    if draft is not None:
        what = "the model's own draft layers" if draft.model is None else f"the draft model {draft.model}"
        yield (
            f"Speculation as {draft.spec_type} has {what} propose {draft.n_max} tokens per step, in a context as long "
            f"as the model's with keys as {draft.cache_type_k} and values as {draft.cache_type_v}."
        )
    if projector is not None:
        yield (
            f"The projector's {projector.weights_bytes:,} bytes of weights lie "
            + ("on one card." if projector.offload and findings.rig.gpus else "on the host.")
        )
    for each in findings.placement.companions:
        parts = [*(f"card {index}" for index in range(len(findings.rig.gpus))), "the host"]
        sizes = (part.total_bytes for part in (*each.devices, each.host))
        taken = [f"{size:,} bytes of {part}" for part, size in zip(parts, sizes, strict=True) if size]
        yield f"Beside the model, {_COMPANIONS[each.kind]} takes " + ", ".join(taken) + "."


def _speed_steps(findings: Findings) -> Iterator[str]:
    speed = findings.speed
    if speed.decode is None:
        return
    yield from _time_steps(speed, findings.rig)
    yield from _first_token_steps(findings)
    yield from _range_steps(speed)


@lru_cache(maxsize=512)
def _time_steps(speed: Speed, rig: Rig) -> tuple[str, ...]:
    """What times are computed from; contexts of any length have the same."""
    return (
        *_reading_steps(speed.processors, speed.assumptions.bandwidth_fraction),
        *(_host_steps(rig, speed.processors.host) if speed.host_read else ()),
        *_decode_step(speed),
        *(_speculation_steps(speed.speculation) if speed.speculation is not None else ()),
        *_kernel_steps(speed),
    )


def _decode_step(speed: Speed) -> Iterator[str]:
    if speed.decode is not None:
        parts = ", ".join([f"{step.s * 1e3:.2f} ms ({step.what})" for step in speed.decode.steps])
        yield f"A decode step takes {parts}."


def _speculation_steps(found: Speculation) -> Iterator[str]:
    parts = ", ".join(f"{step.s * 1e3:.2f} ms ({step.what})" for step in found.drafts)
    yield (
        f"With the draft a step takes {found.verify.step_s * 1e3:.2f} ms for the model to compute {found.tokens + 1} "
        f"tokens at once, and {parts or 'nothing for drafts'}."
    )
    terms = " + ".join(["1", *(f"{found.acceptance_fraction:.2f}^{at + 1}" for at in range(min(found.tokens, 3)))])
    yield (
        f"It yields {terms}{' + ...' if found.tokens > 3 else ''} = {found.tokens_per_step:.2f} tokens on average, so "
        f"that a token takes {found.token_s * 1e3:.2f} instead of {found.plain_s * 1e3:.2f} ms; llama-server would "
        f"print a draft acceptance of {found.accepted_share:.2f}."
    )


def _first_token_steps(findings: Findings) -> Iterator[str]:
    found = checkpoints_of(findings.choice)
    if found is None or findings.speed.prefill_s is None:
        return
    yield (
        f"Before the first token llama-server copies {found.size_bytes:,} bytes to main memory in "
        + (f"{found.count} checkpoints" if found.count > 1 else "one checkpoint")
        + f", as these caches cannot be rolled back: {found.copies_s * 1e3:.0f} ms at "
        f"{CHECKPOINT_BYTES_PER_S / 1e9:.2f} GB/s, assumed after two measured machines; --ctx-checkpoints 0 goes "
        "without them and computes every prompt of a conversation from its start."
    )


@lru_cache(maxsize=1024)
def _reading_steps(processors: Processors, stated_fraction: float | None) -> tuple[str, ...]:
    return tuple(_reading_step(processor, stated_fraction) for processor in dict.fromkeys(processors.cards))


def _reading_step(processor: Processor, stated_fraction: float | None) -> str:
    rate = f"{(processor.reading_bytes_per_s or 0) / 1e9:.0f} GB/s"
    if stated_fraction is not None:
        return f"{processor.name} reads {rate} in decode: {stated_fraction:.2f} of its bandwidth, as assumed."
    known = {
        "fitted": f"fitted to its generation's measurements ({SOURCE}, {FITTED_ON})",
        "modelled": "from its backend's constants, as none of its generation was measured",
        "assumed": "from its backend's constants, as its generation is not known",
    }
    return f"{processor.name} reads {rate} in decode, {known.get(processor.basis, 'as measured')}."


@lru_cache(maxsize=512)
def _range_steps(speed: Speed) -> tuple[str, ...]:
    """Why the ranges are as wide as they are."""
    return _range_step("Decode", speed.step_width), _range_step("A prompt", speed.prompt_width)


def _range_step(what: str, found: Width) -> str:
    return f"{what} may be {found.fraction:.0%} slower or faster: " + (
        f"that covers {COVERAGE_FRACTION:.0%} of {found.n} held-out measurements ({found.group}), widened where "
        "this card or this split is not among them."
        if found.n
        else "nothing like it was measured."
    )


def _kernel_steps(speed: Speed) -> Iterator[str]:
    """Cards whose prompts a build of that date has no kernels of its own for."""
    for processor in dict.fromkeys(speed.processors.cards):
        longer = missing_kernels(speed.work, processor)
        if longer > 1.0:
            yield (
                f"A build of that date has no kernels for prompts on the matrix units of {processor.name} or for these "
                f"weights, unless it was built with other options than by default: their products take {longer:.1f} "
                "times as long."
            )


def _host_steps(rig: Rig, rates: Processor) -> Iterator[str]:
    if rig.host.ram_bandwidth_bytes_per_s is None and not any(gpu.unified_memory for gpu in rig.gpus):
        yield (
            f"Main memory is assumed to move {ASSUMED_RAM_BANDWIDTH_BYTES_PER_S / 1e9:.1f} GB/s (two channels of "
            f"DDR5-5600) and {ASSUMED_HOST_CORES} cores to compute {ASSUMED_HOST_FP32_FLOPS / 1e12:.2f} TFLOPS: "
            "state rig.host.ram_bandwidth_bytes_per_s for better figures."
        )
    yield f"The host reads {(rates.reading_bytes_per_s or 0) / 1e9:.0f} GB/s of its memory in decode."
