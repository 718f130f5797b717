"""What a plan of llama.cpp makes a rig do."""

from functools import lru_cache
from typing import Final

from service.core.engines.llamacpp.loaded import LoadedModel
from service.core.engines.llamacpp.speed import Speed
from service.core.links.transfers import MEETINGS_PER_LAYER
from service.planning.findings import Findings
from service.planning.hardware.work import Mode, Work
from service.planning.speculation import acceptance_is_assumed, rate_of

# prompt tokens for each generated one from which on a workload is mostly prompt
PROMPT_HEAVY_RATIO: Final = 4


def work_of(findings: Findings) -> Work:
    """Read off a plan which cards work when.

    A layer split decodes one stream with one card at a time; row and tensor split, and many streams, load all of them.
    Source: domain notes on power, section 7, and worked examples (Power).
    """
    workload = findings.request.workload
    return _work(
        findings.speed,
        findings.placement.loaded,
        workload.parallel,
        min(findings.placement.ctx.n_ubatch, workload.prompt_tokens),
        host_works=findings.offloaded or not findings.rig.gpus,
        prompt_heavy=workload.prompt_tokens >= PROMPT_HEAVY_RATIO * workload.output_tokens,
        serves=findings.choice.settings.tool == "llama-server",
        acceptance_is_assumed=acceptance_is_assumed(findings),
    )


# most plans of a model in the same slots have the same speed, and so the same work
@lru_cache(maxsize=512)
def _work(
    speed: Speed,
    loaded: LoadedModel,
    streams: int,
    ubatch_tokens: int,
    *,
    host_works: bool,
    prompt_heavy: bool,
    serves: bool,
    acceptance_is_assumed: bool,
) -> Work:
    held = tuple([card.weights.weights_bytes for card in loaded.held])
    busy = loaded.busy
    together, decode = loaded.split_mode in ("row", "tensor"), speed.decode
    mode = Mode(
        together=together and len(busy) > 1,
        host_works=host_works,
        sharing=busy,
        prompt_heavy=prompt_heavy,
        serves=serves,
        n_embd=loaded.hp.n_embd,
        meetings_per_token=MEETINGS_PER_LAYER * loaded.hp.n_layer,
        ubatch_tokens=ubatch_tokens,
    )
    rate = None
    if decode is not None and decode.step_s > 0:
        rate = rate_of(speed, streams, acceptance_is_assumed=acceptance_is_assumed)
    return Work(
        mode=mode,
        busy_fractions=_busy_fractions(speed, together=together or streams > 1),
        tokens_per_s=rate,
        weights_bytes=held,
    )


def _busy_fractions(speed: Speed, *, together: bool) -> tuple[float, ...]:
    """Part of a step in which each card works: by its time, or by what it reads where there is no speed."""
    reads, decode = speed.device_reads, speed.decode
    if together:
        return tuple([1.0 if read else 0.0 for read in reads])
    if decode is not None and decode.step_s > 0:
        return tuple([device_s / decode.step_s for device_s in decode.device_s])
    total = sum(reads) + speed.host_read
    return tuple([read / total if total else 0.0 for read in reads])
