"""How far a prediction may be off: what covers 85 of 100 measurements that the constants were not fitted to."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from service.core.speed import Basis
from service.core.timing.constants import RANGES
from service.core.timing.figures import Range
from service.core.timing.processor import Processor, Processors
from service.core.timing.work import Arrangement, Work

Quantity: TypeAlias = Literal["decode", "streams", "prefill", "speculation"]

COVERAGE_FRACTION: Final = 0.85
# What is not measured is less sure. Assumed: a card whose generation was not measured, and one whose generation is not
# known; a quantity or an arrangement that was not measured, in units of the nearest that was.
_WIDER: Final[dict[Basis, float]] = {"measured": 1.0, "fitted": 1.0, "modelled": 1.5, "assumed": 2.0}
_UNMEASURED_FACTOR: Final = 1.5
_NOTHING_MEASURED: Final = Range(1.0, 0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Width:
    """Half-width of a range around its middle, and what it rests on; n: the measurements, 0 where none was like it."""

    fraction: float
    group: str
    n: int


def width(work: Work, processors: Processors, quantity: Quantity) -> Width:
    """The widest of all processors that work."""
    used = [
        processor
        for part, processor in zip((*work.cards, work.host), (*processors.cards, processors.host), strict=True)
        if part.dense_bytes or part.expert_bytes or part.cache_bytes
    ] or [processors.host]
    return max(_distinct(work, used, quantity), key=lambda each: each.fraction)


def _distinct(work: Work, used: Sequence[Processor], quantity: Quantity) -> list[Width]:
    kinds = dict.fromkeys([(processor.backend, processor.basis) for processor in used])
    return [_width(backend, basis, work.arrangement, quantity) for backend, basis in kinds]


def _width(backend: str, basis: Basis, arrangement: Arrangement, quantity: Quantity) -> Width:
    factor = _WIDER[basis]
    for group in (f"{backend}.{arrangement}.{quantity}", f"{backend}.serial.{quantity}", f"{backend}.serial.decode"):
        if group in RANGES:
            return Width(fraction=factor * RANGES[group].width_fraction, group=group, n=RANGES[group].n)
        factor *= _UNMEASURED_FACTOR
    return Width(fraction=_NOTHING_MEASURED.width_fraction * _WIDER[basis], group=backend, n=0)
