"""The verdict: what each device and the host need against what they have, and the largest context that fits."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from service.core.units import pad

Verdict = Literal["fits", "fits_with_host_offload", "does_not_fit"]

CONTEXT_STEP_TOKENS = 256


class Need(NamedTuple):
    """Bytes needed and usable on one device or the host; usable_bytes None where the size is not known."""

    total_bytes: int
    usable_bytes: int | None

    @property
    def headroom_bytes(self) -> int | None:
        """Bytes left, negative where it does not fit, None where the size is not known."""
        return None if self.usable_bytes is None else self.usable_bytes - self.total_bytes


def shortfall_bytes(needs: Sequence[Need]) -> int:
    """Bytes missing over all devices: each one's own lack, never offset by another's headroom."""
    return sum([total - usable for total, usable in needs if usable is not None and total > usable])


def verdict(needs: Sequence[Need], *, offloaded: bool) -> Verdict:
    """Say whether everything fits; `offloaded` where part of what the cards could hold lies on the host."""
    if shortfall_bytes(needs) > 0:
        return "does_not_fit"
    return "fits_with_host_offload" if offloaded else "fits"


def largest_context_tokens(
    needs_at: Callable[[int], Sequence[Need]],
    *,
    ceiling_tokens: int,
    least_needs_at: Callable[[int], Sequence[Need]] | None = None,
) -> int:
    """Largest multiple of 256 up to `ceiling_tokens` at which everything fits, 0 where none does.

    needs_at gives the needs at a context; they must not fall as the context grows. least_needs_at: a lower bound of
    them that costs less to find and grows evenly. Bytes are close to affine in the context, so the next candidate is
    where the tightest need would cross its limit on a straight line; every fourth one is the middle, which bounds the
    number of looks.
    """
    high = _Point.at(ceiling_tokens // CONTEXT_STEP_TOKENS, needs_at)
    if high.fits:
        return high.steps * CONTEXT_STEP_TOKENS
    low = _Point.at(min(1, high.steps), least_needs_at or needs_at)
    if not low.fits:
        return 0
    if least_needs_at is not None:
        low, high = _around_the_largest(low, high, needs_at, least_needs_at)
    looks = 0
    while high.steps - low.steps > 1:
        looks += 1
        middle = (low.steps + high.steps) // 2
        candidate = _Point.at(middle if looks % 4 == 0 else _crossing(low, high), needs_at)
        low, high = (candidate, high) if candidate.fits else (low, candidate)
    return low.steps * CONTEXT_STEP_TOKENS


@dataclass(frozen=True, slots=True)
class _Point:
    """Needs at a context, which is counted in steps of 256 tokens."""

    steps: int
    needs: Sequence[Need]

    @classmethod
    def at(cls, steps: int, needs_at: Callable[[int], Sequence[Need]]) -> "_Point":
        return cls(steps, needs_at(steps * CONTEXT_STEP_TOKENS) if steps > 0 else ())

    @property
    def fits(self) -> bool:
        return self.steps > 0 and shortfall_bytes(self.needs) == 0

    def with_room_of(self, bound: "_Point", whole: "_Point") -> "_Point":
        """The least needs of this point and what `whole` needs beyond its own least."""
        needs = [
            Need(total_bytes=least.total_bytes + more.total_bytes - held.total_bytes, usable_bytes=least.usable_bytes)
            for least, held, more in zip(self.needs, bound.needs, whole.needs, strict=True)
        ]
        return _Point(self.steps, needs)


def _around_the_largest(
    least: _Point,
    high: _Point,
    needs_at: Callable[[int], Sequence[Need]],
    least_needs_at: Callable[[int], Sequence[Need]],
) -> tuple[_Point, _Point]:
    """A context that fits, or no context at all, and a longer one that does not; least: the least needs of one step.

    What a context needs beyond the least is no more than what a longer one does, so a context whose least needs leave
    so much room fits.
    """
    looks = 0
    while high.steps > 1:
        looks += 1
        bound = _Point.at(high.steps, least_needs_at)
        steps = high.steps // 2 if looks > 2 else _crossing(least.with_room_of(bound, high), high)
        candidate = _Point.at(steps, needs_at)
        if candidate.fits:
            return candidate, high
        high = candidate
    return _Point(0, ()), high


def _crossing(low: _Point, high: _Point) -> int:
    """Step at which the tightest need reaches its limit on the line through two known points."""
    crossing = high.steps
    for below, above in zip(low.needs, high.needs, strict=True):
        growth = above.total_bytes - below.total_bytes
        if below.headroom_bytes is not None and growth > 0:
            crossing = min(crossing, low.steps + (high.steps - low.steps) * below.headroom_bytes // growth)
    return min(max(crossing, low.steps + 1), high.steps - 1)


def context_ceiling_tokens(trained_tokens: int, streams: int, asked_tokens: int | None) -> int:
    """Context up to which a search goes: the training's for every stream, or what was asked for if that is more."""
    trained = trained_tokens // CONTEXT_STEP_TOKENS * CONTEXT_STEP_TOKENS * streams
    return max(trained, pad(asked_tokens, CONTEXT_STEP_TOKENS) if asked_tokens else 0, CONTEXT_STEP_TOKENS)
