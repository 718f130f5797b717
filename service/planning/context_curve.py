"""How an answer changes over the context: the same question asked at many lengths, each filled to its end."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, takewhile
from typing import TypeAlias

from service.contract.plan import Plan
from service.contract.request import PlanRequest
from service.core.problems import PlanProblem

Ask: TypeAlias = Callable[[PlanRequest], Plan]

SHORTEST_TOKENS = 2048
STEP_TOKENS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextCurve:
    """Plans by context, the shortest first.

    cliff_tokens: the largest context at which everything asked for lies on the cards, where a longer one could be
    asked for; None where there is none.
    """

    plans: tuple[tuple[int, Plan], ...]
    cliff_tokens: int | None


def context_curve(ask: Ask, request: PlanRequest) -> ContextCurve:
    """Ask about every context up to the trained one, or twice the one asked for if that is more.

    Decode speed is that of a context filled to its end. Lengths that the engine refuses are left out. Raises what
    `ask` raises where no length can be asked for.
    """
    largest = ask(_at(request, None))
    asked, fitting = request.workload.context_tokens, largest.workload.context_tokens or 0
    end_tokens = max(largest.model.trained_context_tokens, 2 * (asked or 0), SHORTEST_TOKENS)
    cliff = fitting if largest.fits and fitting < end_tokens else None
    lengths = set(_lengths(end_tokens, cliff)) | ({asked} if asked else set())
    found = ((tokens, _answer(ask, _at(request, tokens))) for tokens in sorted(lengths))
    return ContextCurve(plans=tuple((tokens, plan) for tokens, plan in found if plan is not None), cliff_tokens=cliff)


def _lengths(end_tokens: int, cliff_tokens: int | None) -> Iterator[int]:
    """Octaves and the middle between them, and both sides of the cliff; beyond it, where plans take long, octaves."""
    cliff = end_tokens if cliff_tokens is None else cliff_tokens
    for octave in takewhile(lambda tokens: tokens < end_tokens, (SHORTEST_TOKENS << step for step in count())):
        yield octave
        if octave * 3 // 2 < cliff:
            yield octave * 3 // 2
    yield from (cliff, min(cliff + STEP_TOKENS, end_tokens), end_tokens)


def _at(request: PlanRequest, context_tokens: int | None) -> PlanRequest:
    """The question at one length, each stream's share of it filled by prompt and output."""
    workload = request.workload
    changed: dict[str, int | None] = {"context_tokens": context_tokens}
    if context_tokens is not None:
        held = max(1, context_tokens // workload.parallel)
        output = min(workload.output_tokens, held)
        changed |= {"output_tokens": output, "prompt_tokens": max(1, held - output), "cached_tokens": 0}
    return request.model_copy(update={"workload": workload.model_copy(update=changed)})


def _answer(ask: Ask, request: PlanRequest) -> Plan | None:
    try:
        return ask(request)
    except PlanProblem:
        return None
