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
    """Half-width that covers 85 % of measurements that nothing was fitted to.

    n: the held-out measurements it rests on. coverage_fraction: of these, those that a width from the others covers.
    familiar_fraction: those whose generation was well measured on other cards, so that the width is too narrow for a
    card whose generation was not.
    """

    width_fraction: float
    n: int
    coverage_fraction: float
    familiar_fraction: float
