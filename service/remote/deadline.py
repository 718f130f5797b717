"""The time that one conversation with other hosts may take in all."""

import time
from dataclasses import dataclass

# how long one host may stay silent before it counts as not answering
_SILENCE_S = 15.0


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment of the monotonic clock, in seconds."""

    at_s: float

    @classmethod
    def after(cls, duration_s: float) -> "Deadline":
        """The moment `duration_s` from now."""
        return cls(time.monotonic() + duration_s)

    def remaining_s(self) -> float:
        """Seconds left, 0 where it has passed."""
        return max(0.0, self.at_s - time.monotonic())

    def patience_s(self) -> float:
        """Seconds to wait for the next byte."""
        return min(_SILENCE_S, self.remaining_s())
