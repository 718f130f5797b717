"""The verdict: what each device and the host need against what they have, and the largest context that fits."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from service.core.units import pad

Verdict = Literal["fits", "fits_with_host_offload", "does_not_fit"]

CONTEXT_STEP_TOKENS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Bytes needed and usable on one device or the host; usable_bytes None where the size is not known."""

    total_bytes: int
    usable_bytes: int | None

    @property
    def headroom_bytes(self) -> int | None:
        """Bytes left, negative where it does not fit, None where the size is not known."""
        return None if self.usable_bytes is None else self.usable_bytes - self.total_bytes


def shortfall_bytes(needs: Sequence[Need]) -> int:
    """Bytes missing over all devices: each one's own lack, never offset by another's headroom."""
    return sum(max(0, -(need.headroom_bytes or 0)) for need in needs)


def verdict(needs: Sequence[Need], *, offloaded: bool) -> Verdict:
    """Say whether everything fits; `offloaded` where part of what the cards could hold lies on the host."""
    if shortfall_bytes(needs) > 0:
        return "does_not_fit"
    return "fits_with_host_offload" if offloaded else "fits"


def largest_context_tokens(
    needs_at: Callable[[int], Sequence[Need]], *, ceiling_tokens: int, known: int | None = None
) -> int:
    """Largest multiple of 256 up to `ceiling_tokens` at which everything fits, 0 where none does.

    needs_at gives the needs at a context; they must not fall as the context grows. `known` is a context that is
    known to fit. Bytes are close to affine in the context, so the next candidate is where the tightest need would
    cross its limit on a straight line; every fourth one is the middle, which bounds the number of steps.
    """
    top = ceiling_tokens // CONTEXT_STEP_TOKENS
    if top < 1:
        return 0
    high_needs = needs_at(top * CONTEXT_STEP_TOKENS)
    if shortfall_bytes(high_needs) == 0:
        return top * CONTEXT_STEP_TOKENS
    low = 1 if known is None else min(known // CONTEXT_STEP_TOKENS, top - 1)
    low = max(low, 1)
    low_needs = needs_at(low * CONTEXT_STEP_TOKENS)
    if shortfall_bytes(low_needs) > 0:
        return 0
    high = top
    step = 0
    while high - low > 1:
        step += 1
        middle = (low + high) // 2
        candidate = middle if step % 4 == 0 else _crossing(low, low_needs, high, high_needs)
        needs = needs_at(candidate * CONTEXT_STEP_TOKENS)
        if shortfall_bytes(needs) == 0:
            low, low_needs = candidate, needs
        else:
            high, high_needs = candidate, needs
    return low * CONTEXT_STEP_TOKENS


def _crossing(low: int, low_needs: Sequence[Need], high: int, high_needs: Sequence[Need]) -> int:
    """Step at which the tightest need reaches its limit on the line through two known points."""
    crossing = high
    for below, above in zip(low_needs, high_needs, strict=True):
        growth = above.total_bytes - below.total_bytes
        if below.headroom_bytes is not None and growth > 0:
            crossing = min(crossing, low + (high - low) * below.headroom_bytes // growth)
    return min(max(crossing, low + 1), high - 1)


def context_ceiling_tokens(trained_tokens: int, streams: int, asked_tokens: int | None) -> int:
    """Context up to which a search goes: the training's for every stream, or what was asked for if that is more."""
    trained = trained_tokens // CONTEXT_STEP_TOKENS * CONTEXT_STEP_TOKENS * streams
    return max(trained, pad(asked_tokens, CONTEXT_STEP_TOKENS) if asked_tokens else 0, CONTEXT_STEP_TOKENS)
