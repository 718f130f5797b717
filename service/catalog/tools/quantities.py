"""Numbers as tools print them: "24576 MiB", "350.00 W", "16x", "N/A"."""

import re
from typing import Final

from service.core.units import GIB, MIB

_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?")
_UNITS: Final = {"MIB": MIB, "GIB": GIB, "MB": MIB, "B": 1}


def number_of(text: str | None) -> float | None:
    """The first number of a text, None where there is none ("N/A", "[Not Supported]")."""
    found = _NUMBER.search(text or "")
    return None if found is None else float(found[0])


def whole_of(text: str | None) -> int | None:
    """The first number of a text as an integer."""
    value = number_of(text)
    return None if value is None else int(value)


def bytes_of(text: str | None, unit: str = "MiB") -> int | None:
    """A size, in the unit that follows it, else in `unit`; NVIDIA's MB are MiB."""
    value = number_of(text)
    if value is None:
        return None
    rest = _NUMBER.sub("", text or "", count=1).strip().upper()
    return int(value * _UNITS.get(rest, _UNITS[unit.upper()]))
