"""Values as benchmark programs print them."""

import math
import re
from typing import Final

from service.measurements.runs import Printed

_SIZE_UNITS: Final = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "B": 1}
_COUNT_UNITS: Final = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
_QUANTITY: Final = re.compile(r"(\d+(?:[.,]\d+)?)\s*([A-Za-z]+)")
# whatever a terminal made of the sign between mean and deviation
_RATE: Final = re.compile(r"(-?(?:[\d.]+|nan|inf))\s*(?:[^\d\s.-]{1,4}\s*(-?(?:[\d.]+|nan|inf)))?", re.IGNORECASE)


def number(text: str) -> float | None:
    """A number, also nan and inf as printf writes them; None for anything else."""
    try:
        return float(text.strip())
    except ValueError:
        return None


def whole(value: object) -> int | None:
    """A whole number printed as text or given as one; None for anything else."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    text = str(value).strip()
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else None


def flag(value: object) -> bool | None:
    """A switch: JSON's true and false, or 1 and 0; None for anything else."""
    if isinstance(value, bool):
        return value
    return {"1": True, "0": False, "true": True, "false": False, "on": True, "off": False}.get(str(value).lower())


def printed_bytes(text: str) -> Printed | None:
    """A size such as "4.58 GiB"."""
    return _printed(text, _SIZE_UNITS)


def printed_count(text: str) -> Printed | None:
    """A number of weights such as "8.03 B"."""
    return _printed(text, _COUNT_UNITS)


def _printed(text: str, units: dict[str, float] | dict[str, int]) -> Printed | None:
    match = _QUANTITY.fullmatch(text.strip())
    if match is None or match[2] not in units:
        return None
    digits = match[1].replace(",", ".")
    decimals = len(digits.partition(".")[2])
    unit, half = units[match[2]], 0.5 * 10.0**-decimals
    # printf rounds to nearest; a hair more, for what was cut instead
    return Printed(least=(float(digits) - 1.02 * half) * unit, most=(float(digits) + 1.98 * half) * unit)


def rate_and_spread(text: str) -> tuple[float, float | None] | None:
    """Mean and standard deviation such as "131.42 ± 0.59", also where a terminal spoilt the sign between them."""
    match = _RATE.fullmatch(text.strip())
    if match is None:
        return None
    mean = number(match[1])
    return None if mean is None else (mean, None if match[2] is None else number(match[2]))


def file_name(path: str) -> str | None:
    """Last part of a path of any system."""
    return re.split(r"[/\\]", path)[-1][:200] or None


def device_names(text: str) -> tuple[str, ...]:
    """Cards of a list joined by ", " (or "/", as builds of 2023 and 2024 did), where not inside brackets.

    Source: get_gpu_info, tools/llama-bench/llama-bench.cpp:132 (llama.cpp in llama-cpp-python 0.3.36).
    """
    depth, names = 0, [""]
    for character in text:
        depth += (character in "[(") - (character in "])")
        if depth <= 0 and character in ",/":
            names.append("")
        else:
            names[-1] += character
    return tuple(name.strip() for name in names if name.strip())


def is_finite(value: float | None) -> bool:
    """Whether there is a number that counts."""
    return value is not None and math.isfinite(value)
