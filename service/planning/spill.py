"""What a driver that moves memory of a card to the host does to speed, as the contract shapes it."""

from service.contract.estimate import Estimate
from service.contract.speed import SpillPlan
from service.core import estimate as core_estimate
from service.core.timing.spill import SPILLED_RANGE_FACTOR, Spill, spill
from service.planning.findings import Findings


def spill_of(findings: Findings) -> Spill | None:
    """What spills of a choice that does not fit, None where only the host lacks memory or no speed is known."""
    if findings.choice.fits or not findings.speed.token_s:
        return None
    return spill(findings.speed.work, findings.speed.processors, findings.choice.needs)


def spilled_token_s(findings: Findings, spilt: Spill) -> float:
    """Time of one token: the model's step reads what spilled once, whatever the step yields."""
    speculation = findings.speed.speculation
    return (findings.speed.token_s or 0.0) + spilt.step_s / (speculation.tokens_per_step if speculation else 1.0)


def spill_plan(findings: Findings) -> SpillPlan | None:
    """Rates with what spills, None where nothing does."""
    spilt, prefill_s = spill_of(findings), findings.speed.prefill_s
    if spilt is None:
        return None
    plain_s = findings.speed.token_s or 0.0
    token_s, prompt = spilled_token_s(findings, spilt), findings.request.workload.prompt_tokens
    step, prompts = findings.speed.step_width.fraction, findings.speed.prompt_width.fraction
    return SpillPlan(
        spilled_bytes=spilt.spilled_bytes,
        slowdown=token_s / plain_s,
        decode_tokens_per_s=_between(1 / token_s, 1 / plain_s, step),
        prefill_tokens_per_s=(
            _between(prompt / (prefill_s + spilt.prompt_s), prompt / prefill_s, prompts) if prefill_s else None
        ),
    )


def _between(spilled: float, plain: float, range_fraction: float) -> Estimate:
    """A spilled rate with its range, as wide as the link's rate is unsure, which ends where the plain one's does."""
    found = core_estimate.Estimate.around(spilled, (1 + range_fraction) * SPILLED_RANGE_FACTOR - 1)
    return Estimate(low=found.low, mid=found.mid, high=min(found.high, plain * (1 + range_fraction)))
