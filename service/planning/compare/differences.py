"""What makes one row of a comparison differ from another, in words with their numbers."""

from collections.abc import Iterator

from service.contract.estimate import Estimate
from service.contract.plan import Plan
from service.core.units import GIB

_VERDICTS = {
    "fits": "fits",
    "fits_with_host_offload": "fits with a part on the host",
    "does_not_fit": "does not fit",
}
# less than two runs of one build differ by (speed study: 2.8 %)
LEAST_RATIO = 1.03


def difference(changes: list[str], plan: Plan, first: Plan) -> str:
    """How `plan` differs from `first`; changes: which parts of the question do."""
    parts = [part for group in (_verdict(plan, first), _speeds(plan, first), _sizes(plan, first)) for part in group]
    return f"{' and '.join(changes)}: {'; '.join(parts) or 'no difference'}."


def _verdict(plan: Plan, first: Plan) -> Iterator[str]:
    if plan.verdict != first.verdict:
        yield f"{_VERDICTS[plan.verdict]}, where the first {_VERDICTS[first.verdict]}"
    if plan.shortfall_bytes:
        yield f"{plan.shortfall_bytes / GIB:.2f} GiB short"


def _speeds(plan: Plan, first: Plan) -> Iterator[str]:
    if plan.speed is None or first.speed is None:
        return
    yield from _ratio("decode", plan.speed.decode_tokens_per_s, first.speed.decode_tokens_per_s)
    yield from _ratio("prefill", plan.speed.prefill_tokens_per_s, first.speed.prefill_tokens_per_s)
    here, there = stages(plan), stages(first)
    if here != there:
        yield f"{here} instead of {there}"


def stages(plan: Plan) -> str:
    """Cards that hold weights, what they and the host read for a token, and what limits that."""
    busy = sum(1 for device in plan.devices if device.weights_bytes)
    read = sum(device.read_bytes_per_token for device in plan.devices) + plan.host.read_bytes_per_token
    limit = "" if plan.speed is None else f", limited by {plan.speed.limited_by.replace('_', ' ')}"
    where = "the host" if not busy else "one card" if busy == 1 else f"{busy} cards"
    if busy and plan.host.read_bytes_per_token:
        where += " and the host"
    return f"{where} reading {read / 1e9:.2f} GB per token{limit}"


def _ratio(what: str, here: Estimate | None, there: Estimate | None) -> Iterator[str]:
    if here is None or there is None:
        return
    ratio = here.mid / there.mid
    if max(ratio, 1 / ratio) < LEAST_RATIO:
        yield f"{what} as fast"
    else:
        yield f"{what} {ratio:.2f} times as fast ({here.mid:,.1f} instead of {there.mid:,.1f} tok/s)"


def _sizes(plan: Plan, first: Plan) -> Iterator[str]:
    if plan.max_context_tokens != first.max_context_tokens:
        yield f"up to {plan.max_context_tokens:,} instead of {first.max_context_tokens:,} tokens of context"
