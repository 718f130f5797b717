"""What a planner tells of its work, for whoever counts it."""

from typing import Protocol


class Observer(Protocol):
    """Is told of every answer; must be quick and safe to call from several threads."""

    def planned(self, engine: str, duration_s: float, verdict: str | None) -> None:
        """An answer was computed in this time, or refused, without a verdict."""

    def given_again(self, engine: str) -> None:
        """An answer was given that had been computed before."""


class Unobserved:
    """Counts nothing."""

    def planned(self, engine: str, duration_s: float, verdict: str | None) -> None:
        """Pass over it."""

    def given_again(self, engine: str) -> None:
        """Pass over it."""
