"""How far a prediction may be off: what covers 85 of 100 measurements that the constants were not fitted to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from service.core.speed import Basis
from service.core.timing.constants import RANGES
from service.core.timing.figures import Range
from service.core.timing.processor import Processors
from service.core.timing.work import Arrangement, Work

Quantity: TypeAlias = Literal["decode", "streams", "prefill", "speculation"]
Split: TypeAlias = Literal["one", "layer", "row", "tensor"]

COVERAGE_FRACTION: Final = 0.85
# Decode on a generation of which little was measured, where the range comes from cards whose generations were. Source:
# CUDA cards held out, 0.117 against 0.086 in logarithms; prompts are not more uncertain there, and under other backends
# most generations that were held out were new.
_UNFAMILIAR_FACTOR: Final = 1.36
# Assumed: a card whose generation is not known; a quantity or an arrangement that was not measured, in units of the
# nearest that was.
_UNKNOWN_FACTOR: Final = 2.0
_UNMEASURED_FACTOR: Final = 1.5
_NOTHING_MEASURED: Final = Range(1.0, 0, 0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Width:
    """Half-width of a range around its middle, and what it rests on; n: the measurements, 0 where none was like it."""

    fraction: float
    group: str
    n: int


def width(
    work: Work, processors: Processors, quantity: Quantity, ranges: Mapping[str, Range] = RANGES
) -> Width:  # fmt: skip
    """The widest of all processors that work."""
    works = tuple(
        [bool(part.dense_bytes or part.expert_bytes or part.cache_bytes) for part in (*work.cards, work.host)]
    )
    if ranges is RANGES:
        return _known_width(processors, works, work.arrangement, quantity)
    return _widest(processors, works, work.arrangement, quantity, ranges)


@lru_cache(maxsize=4096)
def _known_width(
    processors: Processors, works: tuple[bool, ...], arrangement: Arrangement, quantity: Quantity
) -> Width:  # fmt: skip
    return _widest(processors, works, arrangement, quantity, RANGES)


def _widest(
    processors: Processors,
    works: Sequence[bool],
    arrangement: Arrangement,
    quantity: Quantity,
    ranges: Mapping[str, Range],
) -> Width:
    """works: which cards do, and last whether the host does."""
    used = [
        processor for working, processor in zip(works, (*processors.cards, processors.host), strict=True) if working
    ] or [processors.host]
    kinds = dict.fromkeys([(processor.backend, processor.basis) for processor in used])
    split = split_of(arrangement, sum(works[:-1]))
    found = [_width(groups(backend, split, quantity), quantity, basis, ranges) for backend, basis in kinds]
    return max(found, key=lambda each: each.fraction)


def split_of(arrangement: Arrangement, busy: int) -> Split:
    """One card, or the way in which several share a model."""
    if arrangement != "serial":
        return arrangement
    return "layer" if busy > 1 else "one"


def groups(backend: str, split: Split, quantity: Quantity) -> Sequence[tuple[str, float]]:
    """Groups of measurements that a range may come from, the nearest first, with what it is widened by."""
    together = split if split in ("row", "tensor") else "serial"
    found = [
        (f"{backend}.{split}.{quantity}", 1.0),
        (f"{backend}.{together}.{quantity}", 1.0),
        (f"{backend}.serial.{quantity}", _UNMEASURED_FACTOR if together != "serial" else 1.0),
        (f"{backend}.serial.decode", _UNMEASURED_FACTOR ** (2 if together != "serial" else 1)),
    ]
    return tuple(dict.fromkeys(found))


def _width(
    of: Sequence[tuple[str, float]], quantity: Quantity, basis: Basis, ranges: Mapping[str, Range]
) -> Width:  # fmt: skip
    for group, factor in of:
        if group in ranges:
            known = ranges[group]
            wider = factor * _wider(quantity, basis, known.familiar_fraction)
            return Width(fraction=wider * known.width_fraction, group=group, n=known.n)
    backend, wider = of[-1][0].partition(".")[0], _wider(quantity, basis, 0.0)
    return Width(fraction=wider * _NOTHING_MEASURED.width_fraction, group=backend, n=0)


def _wider(quantity: Quantity, basis: Basis, familiar_fraction: float) -> float:
    """What is not measured is less sure, as far as the range does not already come from cards like that."""
    if basis == "assumed":
        return _UNKNOWN_FACTOR
    if basis != "modelled" or quantity != "decode":
        return 1.0
    return 1.0 + (_UNFAMILIAR_FACTOR - 1.0) * familiar_fraction
