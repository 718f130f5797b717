"""The constants as the module that the speed model reads them from, and the ranges that go with them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.calibration.fit import Found
from service.core.timing.figures import Range
from service.core.timing.ranges import COVERAGE_FRACTION, Quantity
from tests.speed_cases import SpeedCase

# below this a quantile says nothing: the nearest group's range is widened instead
_LEAST_MEASUREMENTS = 5
_QUANTITIES: Mapping[str, Quantity] = {
    "decode_tokens_per_s": "decode",
    "aggregate_decode_tokens_per_s": "streams",
    "prefill_tokens_per_s": "prefill",
    "speculation_gain": "speculation",
}

_HEAD = '''"""Constants of the speed model and widths of its ranges, as `benchmarks/calibrate.py` found them."""

from collections.abc import Mapping
from typing import Final

from service.core.timing.figures import Fitted, Range

'''


def ranges(cases: Sequence[SpeedCase], held_out: NDArray[np.float64]) -> dict[str, Range]:
    """Widths by backend, arrangement and quantity: the quantile of held-out errors that covers 85 of 100 new ones.

    In decode every measurement counts the same. In prompts every type of card does, because whether a card has kernels
    of its own decides over more than the constants do, and a few cards have most of the measurements.

    Source: split conformal prediction, Lei et al., "Distribution-free predictive inference for regression" (2018).
    """
    errors: dict[str, list[tuple[float, str]]] = {}
    for case, error in zip(cases, held_out, strict=True):
        if case.metric in _QUANTITIES:
            group = f"{case.backend}.{case.work.arrangement}.{_QUANTITIES[case.metric]}"
            errors.setdefault(group, []).append((abs(float(error)), case.cards))
    return {
        group: _range(sorted(of), by_card=group.endswith(".prefill"))
        for group, of in sorted(errors.items())
        if len(of) >= _LEAST_MEASUREMENTS
    }


def _range(errors: Sequence[tuple[float, str]], *, by_card: bool) -> Range:
    counts = Counter(card for _, card in errors)
    weights = np.array([1 / counts[card] if by_card else 1.0 for _, card in errors])
    # the new measurement is one more, beyond all that were seen
    shares = np.cumsum(weights) / (weights.sum() + weights.mean())
    rank = min(int(np.searchsorted(shares, COVERAGE_FRACTION)), len(errors) - 1)
    covered = sum(error <= errors[rank][0] for error, _ in errors) / len(errors)
    return Range(float(np.expm1(errors[rank][0])), len(errors), covered)


def module_text(fitted_on: str, constants: Mapping[str, Found], widths: Mapping[str, Range]) -> str:
    """The module's source."""
    return _HEAD + "\n".join(_lines(fitted_on, constants, widths)) + "\n"


def _lines(fitted_on: str, constants: Mapping[str, Found], widths: Mapping[str, Range]) -> Iterator[str]:
    yield f'FITTED_ON: Final = "{fitted_on}"'
    yield 'SOURCE: Final = "public measurements, tests/speed"'
    yield ""
    yield "FITTED: Final[Mapping[str, Fitted]] = {"
    for name, found in constants.items():
        yield f'    "{name}": Fitted({_literal(found.value)}, {found.n}, {found.error:.2f}),'
    yield "}"
    yield ""
    yield "RANGES: Final[Mapping[str, Range]] = {"
    for group, width in widths.items():
        yield f'    "{group}": Range({width.width_fraction:.3f}, {width.n}, {width.coverage_fraction:.2f}),'
    yield "}"


def _literal(value: float) -> str:
    """Four digits, as the formatter writes them."""
    return f"{value:.4g}".replace("e+", "e")
