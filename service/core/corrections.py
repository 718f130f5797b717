"""What measurements say about predictions: errors that belong to a backend, a card, a model or one configuration.

The logarithm of measured / predicted is taken as a sum of independent effects, one for each level that a figure belongs
to, and noise; the effects' best linear prediction given all measurements is what a prediction shifts by. Few or noisy
measurements shift little, those of the same card more than those of another.

Source: best linear unbiased prediction of random effects, G. K. Robinson, "That BLUP is a good thing", Statistical
Science 6 (1991) 15-32.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, sqrt
from typing import Any, TypeAlias

import numpy as np

from service.core.correction_constants import SURPRISING_DEVIATIONS, SURPRISING_LEVELS, Level

Place: TypeAlias = tuple[Level, str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Standing:
    """What a figure belongs to.

    group: figures of other groups say nothing about it. loadings: standard deviation of its logarithm that each place
    it belongs to is responsible for, before anything was measured.
    """

    group: str
    loadings: Mapping[Place, float]


def standing(
    group: str, parts: Mapping[Place, float], shares: Mapping[Level, float], *, log_sd: float
) -> Standing:  # fmt: skip
    """The standing of a figure whose logarithm has the standard deviation `log_sd`.

    parts: how much of it each place has, 1 unless several cards share the work.
    """
    loadings = {place: log_sd * sqrt(shares[place[0]]) * part for place, part in parts.items()}
    return Standing(group=group, loadings=loadings)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Observation:
    """A measurement: logarithm of measured / predicted, with the variance of its own noise."""

    id: str
    standing: Standing
    log_ratio: float
    noise_variance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """What one place contributes: the factor, and the measurements that belong to it."""

    place: Place
    factor: float
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """How measurements change a prediction.

    factor: of the rate. width_fraction: of its range's logarithmic width that is left. shifts: the factors that
    multiply to `factor`, the most general first.
    """

    factor: float
    width_fraction: float
    shifts: tuple[Shift, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """The measurements of one group, solved: `weighed` = covariance^-1 * log ratios.

    surprises: variance that places have beside what was expected of them.
    """

    observations: Sequence[Observation]
    surprises: Mapping[Place, float]
    factorised: Any
    weighed: Sequence[float]


def evidence_of(observations: Sequence[Observation]) -> Evidence:
    """Solve the measurements of one group; at least one."""
    surprises = _surprises(observations)
    observations = [replace(one, standing=_widened(one.standing, surprises)) for one in observations]
    size = len(observations)
    covariances = np.empty((size, size), dtype=np.float64)
    for row, one in enumerate(observations):
        for column, other in enumerate(observations[: row + 1]):
            covariances[row, column] = covariances[column, row] = covariance(one.standing, other.standing)
        covariances[row, row] += one.noise_variance
    factorised = np.linalg.cholesky(covariances)
    ratios = np.array([one.log_ratio for one in observations], dtype=np.float64)
    weighed = np.linalg.solve(factorised.T, np.linalg.solve(factorised, ratios))
    return Evidence(observations, surprises, factorised, tuple(float(value) for value in weighed))


def _surprises(observations: Sequence[Observation]) -> Mapping[Place, float]:
    """Variance to add where a measurement lies further off than two standard deviations.

    So far off, something about these very weights or this set-up is not modelled (a missing kernel): that is where the
    difference belongs, and not to the card or the backend, whose other models it would spoil.
    """
    surprises: dict[Place, float] = {}
    for one in observations:
        expected = covariance(one.standing, one.standing) + one.noise_variance
        beyond = (one.log_ratio / SURPRISING_DEVIATIONS) ** 2 - expected
        if beyond > 0:
            for place in one.standing.loadings:
                if place[0] in SURPRISING_LEVELS:
                    surprises[place] = max(surprises.get(place, 0.0), beyond / len(SURPRISING_LEVELS))
    return surprises


def _widened(figure: Standing, surprises: Mapping[Place, float]) -> Standing:
    if not surprises:
        return figure
    return Standing(
        group=figure.group,
        loadings={
            place: sqrt(loading**2 + surprises[place]) if place in surprises else loading
            for place, loading in figure.loadings.items()
        },
    )


def covariance(one: Standing, other: Standing) -> float:
    """Covariance of two figures' logarithms: the variance of what they share."""
    if one.group != other.group:
        return 0.0
    return sum(loading * other.loadings[place] for place, loading in one.loadings.items() if place in other.loadings)


def correction(evidence: Evidence, figure: Standing, *, noise_variance: float) -> Correction | None:
    """What the evidence says of a figure, None where it shares nothing with it.

    noise_variance: of the measurement that the range is to cover.
    """
    if evidence.observations[0].standing.group != figure.group:
        return None
    widened = _widened(figure, evidence.surprises)
    shifts = tuple(_shifts(evidence, widened))
    if not shifts:
        return None
    before = covariance(figure, figure)
    covariances = np.array([covariance(widened, one.standing) for one in evidence.observations], dtype=np.float64)
    told = np.linalg.solve(evidence.factorised, covariances)
    after = max(0.0, covariance(widened, widened) - float(told @ told))
    factor = 1.0
    for shift in shifts:
        factor *= shift.factor
    return Correction(
        factor=factor,
        width_fraction=min(1.0, sqrt((after + noise_variance) / (before + noise_variance))),
        shifts=shifts,
    )


def _shifts(evidence: Evidence, figure: Standing) -> Iterator[Shift]:
    """The effect of every place that some measurement belongs to."""
    for place, loading in figure.loadings.items():
        members = [
            (one, weight)
            for one, weight in zip(evidence.observations, evidence.weighed, strict=True)
            if place in one.standing.loadings
        ]
        if not members:
            continue
        log_factor = loading * sum(weight * one.standing.loadings[place] for one, weight in members)
        yield Shift(place=place, factor=exp(log_factor), ids=tuple(one.id for one, _ in members))
