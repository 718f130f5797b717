"""What a plan of llama.cpp makes a rig do."""

from typing import Final

from service.core.links.transfers import MEETINGS_PER_LAYER
from service.planning.findings import Findings
from service.planning.hardware.work import Mode, Work
from service.planning.speculation import decode_rate

# prompt tokens for each generated one from which on a workload is mostly prompt
PROMPT_HEAVY_RATIO: Final = 4


def work_of(findings: Findings) -> Work:
    """Read off a plan which cards work when.

    A layer split decodes one stream with one card at a time; row and tensor split, and many streams, load all of them.
    Source: domain notes on power, section 7, and worked examples (Power).
    """
    placement, workload = findings.placement, findings.request.workload
    held = tuple([device.weights_bytes for device in placement.devices])
    together = placement.split_mode in ("row", "tensor")
    hp = findings.choice.question.hp
    decode = findings.speed.decode
    mode = Mode(
        together=together and len(findings.busy) > 1,
        host_works=findings.offloaded or not findings.rig.gpus,
        sharing=findings.busy,
        prompt_heavy=workload.prompt_tokens >= PROMPT_HEAVY_RATIO * workload.output_tokens,
        serves=findings.choice.settings.tool == "llama-server",
        n_embd=hp.n_embd,
        meetings_per_token=MEETINGS_PER_LAYER * hp.n_layer,
        ubatch_tokens=min(placement.ctx.n_ubatch, workload.prompt_tokens),
    )
    rate = None
    if decode is not None and decode.step_s > 0:
        rate = decode_rate(findings, workload.parallel)
    return Work(
        mode=mode,
        busy_fractions=_busy_fractions(findings, together=together or workload.parallel > 1),
        tokens_per_s=rate,
        weights_bytes=held,
    )


def _busy_fractions(findings: Findings, *, together: bool) -> tuple[float, ...]:
    """Part of a step in which each card works: by its time, or by what it reads where there is no speed."""
    reads, decode = findings.speed.device_reads, findings.speed.decode
    if together:
        return tuple([1.0 if read else 0.0 for read in reads])
    if decode is not None and decode.step_s > 0:
        return tuple([device_s / decode.step_s for device_s in decode.device_s])
    total = sum(reads) + findings.speed.host_read
    return tuple([read / total if total else 0.0 for read in reads])
