"""The constants as the module that the speed model reads them from, and the ranges that go with them."""

from collections.abc import Iterator, Mapping

from benchmarks.calibration.fit import Found
from service.core.timing.figures import Range

_HEAD = '''"""Constants of the speed model and widths of its ranges, as `benchmarks/calibrate.py` found them."""

from collections.abc import Mapping
from typing import Final

from service.core.timing.figures import Fitted, Range

'''


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
        shares = f"{width.coverage_fraction:.2f}, {width.familiar_fraction:.2f}"
        yield f'    "{group}": Range({width.width_fraction:.3f}, {width.n}, {shares}),'
    yield "}"


def _literal(value: float) -> str:
    """Four digits, as the formatter writes them."""
    return f"{value:.4g}".replace("e+", "e")
