"""Cross-validation by type of card: no card is both fitted to and predicted."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.calibration.fit import Stage, fit_all, log_errors
from benchmarks.calibration.priors import Prior
from tests.speed_cases import SpeedCase

FOLDS = 5


def folds(cases: Sequence[SpeedCase]) -> dict[str, int]:
    """Fold of every type of card of one backend, so that folds hold about as many measurements of rates each."""
    counts = Counter(_card(case) for case in cases if case.speculates is None)
    counts.update(dict.fromkeys([_card(case) for case in cases], 0))
    filled = [0] * FOLDS
    fold_of = {}
    for card, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        fold_of[card] = filled.index(min(filled))
        filled[fold_of[card]] += count
    return fold_of


def held_out_errors(
    stages: Sequence[Stage], priors: Mapping[str, Prior], cases: Sequence[SpeedCase]
) -> NDArray[np.float64]:
    """Errors of all measurements, each predicted by constants fitted without its cards."""
    errors = np.zeros(len(cases))
    for backend in sorted({case.backend for case in cases}):
        mine = [index for index, case in enumerate(cases) if case.backend == backend]
        fold_of = folds([cases[index] for index in mine])
        for fold in sorted(set(fold_of.values())):
            kept = [cases[index] for index in mine if not _in_fold(cases[index], fold, fold_of)]
            predicted = [index for index in mine if fold_of[_card(cases[index])] == fold]
            found = fit_all([stage for stage in stages if stage.backend == backend], priors, kept)
            values = {name: constant.value for name, constant in found.items()}
            errors[predicted] = log_errors(values, [cases[index] for index in predicted])
    return errors


def _card(case: SpeedCase) -> str:
    """The type of its first card, or the processor where it has none."""
    return case.rig.gpus[0].slug if case.rig.gpus else f"processor {case.rig.host.cpu or case.source}"


def _in_fold(case: SpeedCase, fold: int, fold_of: Mapping[str, int]) -> bool:
    """Whether any of its cards belongs to the fold."""
    return fold_of[_card(case)] == fold or any(fold_of.get(gpu.slug) == fold for gpu in case.rig.gpus)
