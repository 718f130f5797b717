"""What calibration finds: a constant with its error, and a range with what it covers."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fitted:
    """A constant, the measurements that it mattered for, and the standard error of its logarithm.

    n is 0 where nothing like it was measured: the value is then that of benchmarks/calibration/priors.py.
    """

    value: float
    n: int
    error: float


@dataclass(frozen=True, slots=True)
class Range:
    """Half-width that covers 85 % of held-out measurements, how many there were, and the share of them."""

    width_fraction: float
    n: int
    coverage_fraction: float
