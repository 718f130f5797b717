"""Axes of a chart: where a value lies, and which values are written beside it."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import floor, log2, log10

_STEPS = (1, 2, 2.5, 5, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """Values from `first` to `last` over the drawing's units from `start` to `end`, evenly or by octaves."""

    first: float
    last: float
    start: float
    end: float
    octaves: bool = False

    def place(self, value: float) -> float:
        """Where a value lies."""
        first, last, value = (log2(each) if self.octaves else each for each in (self.first, self.last, value))
        share = (value - first) / (last - first) if last > first else 0.0
        return round(self.start + share * (self.end - self.start), 1)


def even_ticks(most: float, about: int) -> list[float]:
    """Round values from 0 to beyond `most`, about that many."""
    step = _round_step(most / about) if most > 0 else 1.0
    return [index * step for index in range(max(2, floor(most / step - 1e-9) + 2))]


def octave_ticks(first: float, last: float, most: int) -> list[int]:
    """Powers of two between two values, every second or third where there were more than `most`."""
    powers = list(_powers(first, last))
    stride = -(-len(powers) // most) if powers else 1
    return powers[::-1][::stride][::-1]


def _powers(first: float, last: float) -> Iterator[int]:
    power = 1
    while power <= last:
        if power >= first:
            yield power
        power *= 2


def _round_step(least: float) -> float:
    magnitude = 10.0 ** floor(log10(least))
    return next(step * magnitude for step in _STEPS if step * magnitude >= least * (1 - 1e-9))
