"""The constants, and the ranges that go with them, as the modules that the speed model reads them from."""

from collections.abc import Iterator, Mapping

from benchmarks.calibration.fit import Found
from service.core.timing.figures import Range

_HEAD = '''"""{title}, as `benchmarks/calibrate.py` found them."""

from collections.abc import Mapping
from typing import Final

from service.core.timing.figures import {kind}

'''


def constants_text(fitted_on: str, constants: Mapping[str, Found]) -> str:
    """The source of the module of constants."""
    return _HEAD.format(title="Constants of the speed model", kind="Fitted") + "\n".join(
        [
            f'FITTED_ON: Final = "{fitted_on}"',
            'SOURCE: Final = "public measurements, tests/speed"',
            "",
            "FITTED: Final[Mapping[str, Fitted]] = {",
            *_constants(constants),
            "}\n",
        ]
    )


def ranges_text(widths: Mapping[str, Range]) -> str:
    """The source of the module of ranges."""
    head = _HEAD.format(title="Widths of the ranges of the speed model", kind="Range")
    return head + "\n".join(["RANGES: Final[Mapping[str, Range]] = {", *_ranges(widths), "}\n"])


def _constants(constants: Mapping[str, Found]) -> Iterator[str]:
    for name, found in constants.items():
        yield f'    "{name}": Fitted({_literal(found.value)}, {found.n}, {found.error:.2f}),'


def _ranges(widths: Mapping[str, Range]) -> Iterator[str]:
    for group, width in widths.items():
        shares = f"{width.coverage_fraction:.2f}, {width.familiar_fraction:.2f}"
        yield f'    "{group}": Range({width.width_fraction:.3f}, {width.n}, {shares}),'


def _literal(value: float) -> str:
    """Four digits, as the formatter writes them."""
    return f"{value:.4g}".replace("e+", "e")
