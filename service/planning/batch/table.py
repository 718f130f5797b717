"""A table of questions as it was read: its header, and its rows as often as they are asked for."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from service.contract.cells import Cell

Row = Sequence[Cell]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """header: as wide as the widest row; rows: gives them anew; count: how many; decimal_comma: 0,9 for 0.9."""

    header: tuple[Cell, ...]
    rows: Callable[[], Iterator[Row]]
    count: int
    decimal_comma: bool = False
