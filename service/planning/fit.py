"""Plans of llama.cpp's own --fit: what it did in words, what to know about it, what another choice gains over it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from service.contract.engine import LlamaCppEngine
from service.contract.plan import Advice, PlanWarning
from service.core.engines.llamacpp.choices import choose, max_context_tokens
from service.core.engines.llamacpp.command import command_of
from service.core.engines.llamacpp.fit import Fit
from service.core.engines.llamacpp.fit.layers import DeviceLayers
from service.core.engines.llamacpp.question import Choice
from service.core.engines.llamacpp.speed import Speed, speed_of
from service.core.memory import shortfall_bytes
from service.core.problems import Unsupported
from service.planning.findings import Findings

# less than the noise between two runs of one build is no gain (speed study: 2.8 %)
LEAST_GAIN = 1.03


def refuse_unfitted_companions(engine: LlamaCppEngine) -> None:
    """Refuse a fit of what runs beside the model.

    Raises Unsupported.
    """
    for field in ("draft", "mmproj"):
        if engine.fit and getattr(engine, field) is not None:
            raise Unsupported(
                f"--fit is planned for a model on its own: leave engine.fit or engine.{field} null.",
                fields=("engine.fit", f"engine.{field}"),
            )


def fit_steps(findings: Findings) -> Iterator[str]:
    """What the fit did, step by step."""
    fit = findings.fit
    if fit is None:
        return
    question = fit.question
    used, free = question.used_bytes(fit.context.full), question.free_bytes
    yield (
        f"llama.cpp's --fit measures the model with {fit.context.start_tokens:,} tokens of context: "
        + " and ".join(f"{each:,} of {room:,} bytes" for each, room in zip(used, free, strict=True))
        + f", where {question.margin_bytes:,} are to stay free"
        + (" on every card." if question.devices else ".")
    )
    yield from _context_step(fit)
    if fit.outcome == "failed":
        yield f"Then it gives up ({fit.failure}) and the model is loaded with what was stated."
    yield from _layer_steps(fit)
    if findings.choice.settings.tool == "llama-server":
        yield (
            f"--fit measured as llama-fit-params does, with logits for all {findings.placement.ctx.n_ubatch} tokens of "
            "an ubatch; llama-server's own has them for its streams alone and may keep somewhat more on the cards."
        )


def _context_step(fit: Fit) -> Iterator[str]:
    start, tokens = fit.context.start_tokens, fit.context_tokens
    if fit.outcome == "as_it_is":
        yield "That fits, so it changes nothing." if fit.context.done else "That does not fit."
    elif tokens != start:
        yield (
            f"That is too much, so it reduces the context from {start:,} to {tokens:,} tokens: "
            + ("the least it keeps." if tokens == fit.question.least_context else "on a straight line between the two.")
        )
    elif fit.question.workload.context_tokens is not None:
        yield "That is too much, and the context was stated, so it stays."


def _layer_steps(fit: Fit) -> Iterator[str]:
    if fit.layout is None:
        return
    if fit.surplus_bytes is not None:
        yield (
            f"With every expert on the host the cards together have {fit.surplus_bytes:,} bytes to spare"
            + (", so it puts experts on them, from the first card on." if fit.surplus_bytes > 0 else ".")
        )
    yield "It fills cards from the last to the first: " + ", ".join(
        f"{device.buffer_type} {_layers(layers)}"
        for device, layers in zip(fit.question.devices, fit.layout.devices, strict=True)
    ) + "."  # fmt: skip


def _layers(layers: DeviceLayers) -> str:
    parted = (
        f", {layers.n_part} of them without their experts or part of them" if layers.n_full < layers.n_layer else ""
    )
    return f"{layers.n_layer} layers{parted}"


def fit_warnings(findings: Findings) -> Iterator[PlanWarning]:
    """What the fit did that its user may not expect."""
    fit = findings.fit
    if fit is None:
        return
    if fit.context_tokens != fit.context.start_tokens:
        yield PlanWarning(
            code="fit-context",
            severity="info",
            message=f"--fit reduces the context from {fit.context.start_tokens:,} to {fit.context_tokens:,} tokens "
            "without being asked: state the context that is needed.",
            numbers={"from_tokens": fit.context.start_tokens, "context_tokens": fit.context_tokens},
        )
    if fit.outcome == "failed":
        yield PlanWarning(
            code="fit-failed",
            severity="warning",
            message=f"--fit gives up: {fit.failure}. A context that it reduced before stays reduced.",
            numbers={"reason": fit.failure or "", "context_tokens": fit.context_tokens},
        )
    yield from _draft_layers_push_layers_out(findings, fit)


def _draft_layers_push_layers_out(findings: Findings, fit: Fit) -> Iterator[PlanWarning]:
    """The loader counts draft layers as well, so that as many layers at the start stay on the host.

    Source: src/llama-model.cpp:1589, common/fit.cpp:147 (llama.cpp in llama-cpp-python 0.3.36).
    """
    if fit.layout is None or not findings.layers_on_host:
        return
    if sum(layers.n_layer for layers in fit.layout.devices) == fit.question.n_layer + 1:
        yield PlanWarning(
            code="fit-leaves-layers",
            severity="warning",
            message=f"--fit means all {fit.question.n_layer} layers for the cards, but the file's draft (MTP) layers "
            f"count when it is loaded, so that {findings.layers_on_host} at the start stay on the host: state -ngl "
            "all and the shares instead.",
            numbers={"host_layers": findings.layers_on_host},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rival:
    """What the planner chooses for the same question and context, where that fits."""

    choice: Choice
    speed: Speed
    max_context_tokens: int


def _rival(findings: Findings, fit: Fit) -> _Rival | None:
    question = fit.question
    workload = replace(findings.choice.question.workload, context_tokens=fit.context_tokens)
    choice = choose(question.model, question.rig, question.settings, workload, assumptions=findings.assumptions)
    if not choice.fits:
        return None
    return _Rival(
        choice=choice, speed=speed_of(choice, findings.assumptions), max_context_tokens=max_context_tokens(choice)
    )


def fit_advice(findings: Findings) -> Iterator[Advice]:
    """The planner's own choice for the same question, where it is faster, has room for more context or fits at all."""
    fit = findings.fit
    rival = None if fit is None else _rival(findings, fit)
    if rival is None:
        return
    decode, own = findings.speed.decode, rival.speed.decode
    gain = decode.step_s / own.step_s if decode and own else 1.0
    longer = rival.max_context_tokens > max(findings.max_context_tokens, 1) * LEAST_GAIN
    rescued = not findings.choice.fits
    if gain < LEAST_GAIN and not rescued and not (longer and gain > 1 / LEAST_GAIN):
        return
    workload = replace(rival.choice.question.workload, context_tokens=rival.choice.context_tokens)
    command = command_of(findings.model, findings.rig, rival.choice.settings, workload).text
    decode_per_s, own_per_s = (1 / each.step_s if each else 0.0 for each in (decode, own))
    yield Advice(
        code="better-than-fit",
        message=f"Left to the planner, the same {rival.choice.context_tokens:,} tokens of context"
        + (" fit, and decode" if rescued else " decode")
        + f" at {own_per_s:.1f} instead of {decode_per_s:.1f} tokens/s ({gain:.2f} times as fast), with room for "
        f"{rival.max_context_tokens:,} tokens instead of {findings.max_context_tokens:,}: {command}",
        numbers={
            "decode_tokens_per_s": own_per_s,
            "fit_decode_tokens_per_s": decode_per_s,
            "gain": gain,
            "max_context_tokens": rival.max_context_tokens,
            "fit_max_context_tokens": findings.max_context_tokens,
            "fit_shortfall_bytes": shortfall_bytes(findings.choice.needs),
            "command": command,
        },
    )
