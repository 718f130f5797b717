"""What a draft does to decode speed, as the contract shapes it."""

from dataclasses import replace

from service.contract.speed import SpeculationPlan
from service.core.engines.llamacpp.speed import Speed, most_useful_draft
from service.core.estimate import Estimate
from service.core.timing.speculation import ASSUMED_ACCEPTANCE_RANGE
from service.planning.findings import Findings


def acceptance_is_assumed(findings: Findings) -> bool:
    """Whether a draft's acceptance was left open."""
    draft = findings.companions.draft
    return draft is not None and draft.acceptance_fraction is None


def rate_of(speed: Speed, streams: int, *, acceptance_is_assumed: bool) -> Estimate:
    """Tokens per second of so many streams; where acceptance is assumed, from that of prose to that of code."""
    range_fraction = speed.step_width.fraction
    found = Estimate.around(streams / (speed.token_s or 1.0), range_fraction)
    if speed.speculation is None or not acceptance_is_assumed:
        return found
    slow, fast = (
        Estimate.around(streams / replace(speed.speculation, acceptance_fraction=each).token_s, range_fraction)
        for each in ASSUMED_ACCEPTANCE_RANGE
    )
    return Estimate(low=slow.low, mid=found.mid, high=fast.high)


def speculation_plan(findings: Findings) -> SpeculationPlan | None:
    """A speculative step beside a plain one, None without a draft or where it is not modelled."""
    found = findings.speed.speculation
    if found is None:
        return None
    best = most_useful_draft(findings.choice, findings.speed) or found
    return SpeculationPlan(
        acceptance_fraction=found.acceptance_fraction,
        acceptance_assumed=acceptance_is_assumed(findings),
        n_max=found.tokens,
        accepted_fraction=found.accepted_share,
        step_tokens=found.tokens_per_step,
        draft_s=found.draft_s,
        verify_s=found.verify.step_s,
        plain_decode_tokens_per_s=1 / found.plain_s,
        gain=found.gain,
        break_even_acceptance_fraction=found.break_even_fraction,
        best_n_max=best.tokens,
        best_gain=best.gain,
    )
