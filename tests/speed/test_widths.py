"""Widths of ranges: from whose errors they come, and whom they do not know."""

import numpy as np
import pytest

from benchmarks.calibration.held_out import FOLDS, HeldOut, card_of, folds
from benchmarks.calibration.widths import covered, ranges, widths
from service.core.timing.constants import CALIBRATION
from tests.speed_cases import SpeedCase, speed_cases


def decodes(backend: str) -> list[SpeedCase]:
    """Decode measurements of one stream on single cards of a backend."""
    return [
        case
        for case in speed_cases()
        if case.backend == backend and case.split == "one" and case.metric == "decode_tokens_per_s"
    ]


def held_with(cases: list[SpeedCase], errors: list[float]) -> HeldOut:
    """Errors as they may have come out, with the committed constants."""
    fold_of = folds(cases)
    return HeldOut(
        errors=np.array(errors),
        folds=tuple(fold_of[card_of(case)] for case in cases),
        calibrations=(CALIBRATION,) * len(cases),
    )


def test_a_width_is_the_error_that_85_of_100_stay_below() -> None:
    """The new measurement counts as one more, beyond all that were seen."""
    cases = decodes("cuda")[:99]
    held = held_with(cases, [index / 100 for index in range(1, 100)])
    found = widths(cases, held, range(99))["cuda.serial.decode"]
    assert found.n == 99
    assert np.log1p(found.width_fraction) == pytest.approx(0.85)


def test_few_measurements_are_drawn_towards_those_of_other_backends() -> None:
    """Ten Vulkan figures that are far off are not taken for the whole truth, hundreds of CUDA figures nearly are."""
    many, few = decodes("cuda"), decodes("vulkan")[:10]
    held = held_with([*many, *few], [0.1] * len(many) + [0.4] * len(few))
    found = widths([*many, *few], held, range(len(many) + len(few)))
    assert 0.25 < np.log1p(found["vulkan.serial.decode"].width_fraction) < 0.4
    assert np.log1p(found["cuda.serial.decode"].width_fraction) == pytest.approx(0.1, rel=0.05)


def test_a_fold_is_covered_by_what_the_others_say() -> None:
    """A fold whose errors are ten times the others' is not in range, however many figures it has."""
    cases = decodes("cuda")
    fold_of = folds(cases)
    assert set(fold_of.values()) == set(range(FOLDS))
    held = held_with(cases, [0.5 if fold_of[card_of(case)] == 0 else 0.05 for case in cases])
    inside = covered(cases, held)
    assert inside == [fold != 0 for fold in held.folds]
    known = ranges(cases, held, inside)["cuda.serial.decode"]
    assert known.coverage_fraction == pytest.approx(sum(inside) / len(cases))
    assert np.log1p(known.width_fraction) > 0.3
