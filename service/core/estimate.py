"""A quantity that is not known exactly."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A quantity with its range."""

    low: float
    mid: float
    high: float

    @classmethod
    def around(cls, mid: float, range_fraction: float) -> "Estimate":
        """Range that reaches as far down as up in proportion."""
        return cls(low=mid / (1 + range_fraction), mid=mid, high=mid * (1 + range_fraction))
