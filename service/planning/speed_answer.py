"""Speed of an answer: rates with their ranges, and what they are made of."""

from functools import lru_cache

from service.contract.estimate import Estimate
from service.contract.speed import BreakdownStep, SpeculationPlan, SpeedPlan, SpillPlan
from service.core.engines.llamacpp.checkpoints import CHECKPOINT_RANGE, Checkpoints, checkpoints_of
from service.core.engines.llamacpp.speed import Speed
from service.planning.estimates import around, shown
from service.planning.findings import Findings
from service.planning.speculation import acceptance_is_assumed, rate_of, speculation_plan
from service.planning.spill import spill_plan


def speed_plan(findings: Findings) -> SpeedPlan | None:
    """Rates of one stream and of all of them; None where no speed is known."""
    speed, workload = findings.speed, findings.request.workload
    if speed.decode is None or speed.decode.step_s <= 0:
        return None
    return _speed_plan(
        speed,
        workload.parallel,
        workload.prompt_tokens,
        checkpoints_of(findings.choice),
        speculation_plan(findings),
        spill_plan(findings),
        acceptance_is_assumed=acceptance_is_assumed(findings),
    )


# contexts of any length have the same speed, as a token reads no further than its depth
@lru_cache(maxsize=512)
def _speed_plan(
    speed: Speed,
    streams: int,
    prompt_tokens: int,
    checkpoints: Checkpoints | None,
    speculation: SpeculationPlan | None,
    spill: SpillPlan | None,
    *,
    acceptance_is_assumed: bool,
) -> SpeedPlan | None:
    """Rates with their ranges: a stream's own, and all streams together."""
    decode, prefill_s, prompt_width = speed.decode, speed.prefill_s, speed.prompt_width.fraction
    if decode is None:
        return None
    own = shown(rate_of(speed, 1, acceptance_is_assumed=acceptance_is_assumed))
    together = own
    if streams > 1:
        together = shown(rate_of(speed, streams, acceptance_is_assumed=acceptance_is_assumed))
    computed = around(prefill_s + decode.step_s, prompt_width) if prefill_s else None
    return SpeedPlan(
        decode_tokens_per_s=own,
        prefill_tokens_per_s=around(prompt_tokens / prefill_s, prompt_width) if prefill_s else None,
        ttft_s=computed if computed is None or checkpoints is None else _with_copies(computed, checkpoints.copies_s),
        aggregate_decode_tokens_per_s=together,
        limited_by=decode.limited_by,
        basis="assumed" if speculation is not None and acceptance_is_assumed else decode.basis,
        breakdown=[BreakdownStep(what=step.what, s=step.s) for step in speed.steps],
        speculation=speculation,
        spill=spill,
    )


def _with_copies(computed: Estimate, copies_s: float) -> Estimate:
    """Prompt and a step, and the copies that a server makes in between, which have a range of their own."""
    least, most = CHECKPOINT_RANGE
    return Estimate(
        low=computed.low + least * copies_s, mid=computed.mid + copies_s, high=computed.high + most * copies_s
    )
