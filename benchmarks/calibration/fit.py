"""Fitting constants to measurements: robust least squares on the logarithm of predicted / measured, held by priors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares  # type: ignore[import-untyped]

from benchmarks.calibration.priors import Prior
from service.core.timing.constants import calibration_of
from tests.speed_cases import SpeedCase

# a figure of a table with its build or a stated method, and any other
_WEIGHTS = {"A": 1.0, "B": 0.35}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Constants that are fitted together, to which measurements, and how far those scatter by themselves.

    scatter: errors beyond it count less and less.
    """

    name: str
    backend: str
    splits: tuple[str, ...]
    metrics: tuple[str, ...]
    constants: tuple[str, ...]
    scatter: float

    def cases(self, cases: Sequence[SpeedCase]) -> list[SpeedCase]:
        """The measurements among `cases` that it is fitted to."""
        return [
            case
            for case in cases
            if case.backend == self.backend and case.split in self.splits and case.metric in self.metrics
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A constant's value, the measurements that it matters for, and the standard error of its logarithm."""

    value: float
    n: int
    error: float


def log_errors(values: Mapping[str, float], cases: Sequence[SpeedCase]) -> NDArray[np.float64]:
    """Logarithm of predicted / measured rate; for a time the other way round, so that above 0 is too fast."""
    calibration = calibration_of(values)
    errors = []
    for case in cases:
        predicted = case.predicted(calibration)
        ratio = np.log((predicted or np.inf) / case.value)
        errors.append(-ratio if case.metric == "ttft_s" else ratio)
    return np.array(errors, dtype=np.float64)


def fit(
    stage: Stage, values: Mapping[str, float], priors: Mapping[str, Prior], cases: Sequence[SpeedCase]
) -> dict[str, Found]:
    """Constants of a stage; those of other stages are kept at `values`."""
    free = [name for name in stage.constants if priors[name].spread and priors[name].value]
    kept = {
        name: Found(value=priors[name].value, n=0, error=priors[name].spread)
        for name in stage.constants
        if name not in free
    }
    mine = stage.cases(cases)
    if not mine or not free:
        return kept | {name: Found(value=priors[name].value, n=0, error=priors[name].spread) for name in free}
    starts = np.log([priors[name].value for name in free])
    spreads = np.array([priors[name].spread for name in free])
    weights = np.sqrt([_WEIGHTS[case.quality] for case in mine])

    def residuals(logs: NDArray[np.float64]) -> NDArray[np.float64]:
        changed = {**values, **{name: float(np.exp(log)) for name, log in zip(free, logs, strict=True)}}
        scaled = weights * log_errors(changed, mine) / stage.scatter
        # soft absolute value of each error; the priors are not softened
        softened = np.sign(scaled) * np.sqrt(2 * (np.sqrt(1 + scaled**2) - 1))
        return np.concatenate([softened, (logs - starts) / spreads])

    solved = least_squares(residuals, starts, diff_step=1e-4, xtol=1e-4, ftol=1e-4, max_nfev=25)
    inverse = np.linalg.inv(solved.jac.T @ solved.jac)
    sensitive = np.abs(solved.jac[: len(mine)]) > 1e-4
    return kept | {
        name: Found(
            value=float(np.exp(solved.x[index])),
            n=int(sensitive[:, index].sum()),
            error=float(np.sqrt(inverse[index, index])),
        )
        for index, name in enumerate(free)
    }


def fit_all(stages: Sequence[Stage], priors: Mapping[str, Prior], cases: Sequence[SpeedCase]) -> dict[str, Found]:
    """All constants, stage after stage."""
    found = {name: Found(value=prior.value, n=0, error=prior.spread) for name, prior in priors.items()}
    for stage in stages:
        values = {name: constant.value for name, constant in found.items()}
        found |= fit(stage, values, priors, cases)
    return found
