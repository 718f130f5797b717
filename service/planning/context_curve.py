"""How an answer changes over the context: the same question asked at many lengths, each filled to its end."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
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
    asked, guess = request.workload.context_tokens, largest.workload.context_tokens or 0
    end_tokens = max(largest.model.trained_context_tokens, 2 * (asked or 0), SHORTEST_TOKENS)
    found = _Asked(ask, request)
    for tokens in [*_octaves(end_tokens), end_tokens, *([asked] if asked else [])]:
        found.fits(tokens)
    cliff = _cliff_tokens(found, guess)
    for octave in _octaves(end_tokens):
        # beyond the cliff plans take long and say little more
        if octave * 3 // 2 < (end_tokens if cliff is None else cliff):
            found.fits(octave * 3 // 2)
    plans = ((tokens, plan) for tokens, plan in sorted(found.plans.items()) if plan is not None)
    return ContextCurve(plans=tuple(plans), cliff_tokens=cliff)


@dataclass(slots=True)
class _Asked:
    """The answers so far, None where the engine refuses a length."""

    ask: Ask
    request: PlanRequest
    plans: dict[int, Plan | None] = field(default_factory=dict)

    def fits(self, tokens: int) -> bool:
        """Whether everything lies on the cards at that length; asked once."""
        if tokens not in self.plans:
            try:
                self.plans[tokens] = self.ask(_at(self.request, tokens))
            except PlanProblem:
                self.plans[tokens] = None
        plan = self.plans[tokens]
        return plan is not None and plan.fits


def _octaves(end_tokens: int) -> Iterator[int]:
    return takewhile(lambda tokens: tokens < end_tokens, (SHORTEST_TOKENS << step for step in count()))


def _cliff_tokens(found: _Asked, guess_tokens: int) -> int | None:
    """The last length that fits before the first that does not; both are asked, the guess before any other."""
    lengths = sorted(found.plans)
    over = next((tokens for tokens in lengths if not found.fits(tokens)), None)
    if over is None or over == lengths[0]:
        return None
    under = max(tokens for tokens in lengths if tokens < over)
    for guess in (guess_tokens, guess_tokens + STEP_TOKENS):
        if under < guess < over:
            under, over = (guess, over) if found.fits(guess) else (under, guess)
    while over - under > STEP_TOKENS:
        middle = (under + over) // 2 // STEP_TOKENS * STEP_TOKENS
        if middle <= under:
            break
        under, over = (middle, over) if found.fits(middle) else (under, middle)
    return under


def _at(request: PlanRequest, context_tokens: int | None) -> PlanRequest:
    """The question at one length, each stream's share of it filled by prompt and output."""
    workload = request.workload
    changed: dict[str, int | None] = {"context_tokens": context_tokens}
    if context_tokens is not None:
        held = max(1, context_tokens // workload.parallel)
        output = min(workload.output_tokens, held)
        changed |= {"output_tokens": output, "prompt_tokens": max(1, held - output), "cached_tokens": 0}
    return request.model_copy(update={"workload": workload.model_copy(update=changed)})
