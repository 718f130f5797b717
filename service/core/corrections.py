"""What measurements say about predictions: errors that belong to a backend, a card, a model or one configuration.

The logarithm of measured / predicted is taken as a sum of independent effects, one for each level that a figure belongs
to, and noise; the effects' best linear prediction given all measurements is what a prediction shifts by. Few or noisy
measurements shift little, those of the same card more than those of another.

Source: best linear unbiased prediction of random effects, G. K. Robinson, "That BLUP is a good thing", Statistical
Science 6 (1991) 15-32.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, sqrt
from statistics import median
from typing import Any, TypeAlias

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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evidence:
    """The measurements of one group, solved.

    ids: of the measurements, in the order of everything below. columns: loading of every measurement on each place.
    effects: what the measurements say of each place, in units of its loading. surprises: variance that places have
    beside what was expected of them. whitening: inverse of the Cholesky factor of the measurements' covariances.
    """

    group: str
    ids: tuple[str, ...]
    columns: Mapping[Place, Any]
    effects: Mapping[Place, float]
    surprises: Mapping[Place, float]
    whitening: Any


def evidence_of(observations: Sequence[Observation]) -> Evidence:
    """Solve the measurements of one group; at least one."""
    import numpy as np  # noqa: PLC0415 - takes as long as many plans; only who has measurements needs it

    surprises = _surprises(observations)
    standings = [_widened(one.standing, surprises) for one in observations]
    rows: dict[Place, int] = {}
    for one in standings:
        for place in one.loadings:
            rows.setdefault(place, len(rows))
    loadings = np.zeros((len(rows), len(standings)), dtype=np.float64)
    for column, one in enumerate(standings):
        for place, loading in one.loadings.items():
            loadings[rows[place], column] = loading
    noise = np.array([one.noise_variance for one in observations], dtype=np.float64)
    whitening = np.linalg.inv(np.linalg.cholesky(loadings.T @ loadings + np.diag(noise)))
    ratios = np.array([one.log_ratio for one in observations], dtype=np.float64)
    effects = loadings @ (whitening.T @ (whitening @ ratios))
    return Evidence(
        group=standings[0].group,
        ids=tuple(one.id for one in observations),
        columns={place: loadings[row] for place, row in rows.items()},
        effects={place: float(effects[row]) for place, row in rows.items()},
        surprises=surprises,
        whitening=whitening,
    )


def _surprises(observations: Sequence[Observation]) -> Mapping[Place, float]:
    """Variance to add where measurements lie further off than the usual kind of error explains.

    Where several models of a card do so together, it is the card that is not as it was taken for. Where one figure
    does so alone, something about its very weights or set-up is not modelled (a missing kernel): that is where the
    difference belongs, and not to the card or the backend, whose other models it would spoil.
    """
    surprises: dict[Place, float] = {}
    usual: dict[str, float] = {}
    for place, members in _by_card(observations).items():
        together = median(one.log_ratio for one in members)
        beyond = (together / SURPRISING_DEVIATIONS) ** 2 - _variance_together(members)
        if beyond > 0:
            surprises[place] = beyond
            usual |= {one.id: together for one in members}
    for one in observations:
        expected = covariance(one.standing, one.standing) + one.noise_variance
        alone = one.log_ratio - usual.get(one.id, 0.0)
        beyond = (alone / SURPRISING_DEVIATIONS) ** 2 - expected
        for place in one.standing.loadings:
            if beyond > 0 and place[0] in SURPRISING_LEVELS:
                surprises[place] = max(surprises.get(place, 0.0), beyond / len(SURPRISING_LEVELS))
    return surprises


def _by_card(observations: Sequence[Observation]) -> Mapping[Place, Sequence[Observation]]:
    """Measurements of every card of which several models were measured."""
    members: dict[Place, list[Observation]] = {}
    models: dict[Place, set[Place]] = {}
    for one in observations:
        for place in one.standing.loadings:
            if place[0] == "card":
                members.setdefault(place, []).append(one)
                models.setdefault(place, set()).update(other for other in one.standing.loadings if other[0] == "model")
    return {place: found for place, found in members.items() if len(models[place]) > 1}


def _variance_together(members: Sequence[Observation]) -> float:
    """Variance of the middle of these log ratios, as expected: that of their mean."""
    shared = sum(covariance(one.standing, other.standing) for one in members for other in members)
    return (shared + sum(one.noise_variance for one in members)) / len(members) ** 2


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
    if evidence.group != figure.group:
        return None
    widened = _widened(figure, evidence.surprises)
    shared = {place: loading for place, loading in widened.loadings.items() if place in evidence.columns}
    if not shared:
        return None
    covariances = sum(loading * evidence.columns[place] for place, loading in shared.items())
    told = evidence.whitening @ covariances
    before = covariance(figure, figure)
    after = max(0.0, covariance(widened, widened) - float(told @ told))
    return Correction(
        factor=exp(sum(loading * evidence.effects[place] for place, loading in shared.items())),
        width_fraction=min(1.0, sqrt((after + noise_variance) / (before + noise_variance))),
        shifts=tuple([shift_of(evidence, place, loading) for place, loading in shared.items()]),
    )


def shift_of(evidence: Evidence, place: Place, loading: float) -> Shift:
    """What one place that was measured contributes to figures with this loading on it."""
    members = evidence.columns[place].nonzero()[0]
    return Shift(
        place=place,
        factor=exp(loading * evidence.effects[place]),
        ids=tuple([evidence.ids[member] for member in members]),
    )


def shifts_of(evidence: Evidence) -> Iterator[Shift]:
    """What every place that was measured contributes to figures like those measured there."""
    for place, column in evidence.columns.items():
        members = column[column != 0]
        yield shift_of(evidence, place, float(members.mean()))
