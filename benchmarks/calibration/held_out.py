"""Cross-validation by type of card: no card is both fitted to and predicted."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.calibration.fit import Stage, fit_all, log_errors
from benchmarks.calibration.priors import Prior
from service.core.timing.constants import Calibration, calibration_of
from tests.speed_cases import SpeedCase

FOLDS = 5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeldOut:
    """Every measurement as constants see it that were fitted without its cards, in the order of the measurements.

    errors: logarithm of predicted / measured rate. folds: of its cards among those of its backend. calibrations: the
    constants that predicted it.
    """

    errors: NDArray[np.float64]
    folds: tuple[int, ...]
    calibrations: tuple[Calibration, ...]


def folds(cases: Sequence[SpeedCase]) -> dict[str, int]:
    """Fold of every type of card of one backend, so that folds hold about as many measurements of rates each."""
    counts = Counter(card_of(case) for case in cases if case.speculates is None)
    counts.update(dict.fromkeys([card_of(case) for case in cases], 0))
    filled = [0] * FOLDS
    fold_of = {}
    for card, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        fold_of[card] = filled.index(min(filled))
        filled[fold_of[card]] += count
    return fold_of


def held_out(stages: Sequence[Stage], priors: Mapping[str, Prior], cases: Sequence[SpeedCase]) -> HeldOut:
    """All measurements, each predicted by constants fitted without its cards."""
    errors, fold_by_case = np.zeros(len(cases)), [0] * len(cases)
    by_case: dict[int, Calibration] = {}
    for backend in sorted({case.backend for case in cases}):
        mine = [index for index, case in enumerate(cases) if case.backend == backend]
        fold_of = folds([cases[index] for index in mine])
        for fold in sorted(set(fold_of.values())):
            kept = [cases[index] for index in mine if not _in_fold(cases[index], fold, fold_of)]
            predicted = [index for index in mine if fold_of[card_of(cases[index])] == fold]
            found = fit_all([stage for stage in stages if stage.backend == backend], priors, kept)
            values = {name: constant.value for name, constant in found.items()}
            calibration = calibration_of(values, {name: constant.n for name, constant in found.items()})
            errors[predicted] = log_errors(values, [cases[index] for index in predicted])
            for index in predicted:
                fold_by_case[index], by_case[index] = fold, calibration
    return HeldOut(
        errors=errors, folds=tuple(fold_by_case), calibrations=tuple(by_case[index] for index in range(len(cases)))
    )


def card_of(case: SpeedCase) -> str:
    """The type of its first card, or the processor where it has none."""
    return case.rig.gpus[0].slug if case.rig.gpus else f"processor {case.rig.host.cpu or case.source}"


def _in_fold(case: SpeedCase, fold: int, fold_of: Mapping[str, int]) -> bool:
    """Whether any of its cards belongs to the fold."""
    return fold_of[card_of(case)] == fold or any(fold_of.get(gpu.slug) == fold for gpu in case.rig.gpus)
