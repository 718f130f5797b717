"""Cells as JSON and back: what a workbook holds beside text and numbers keeps its kind."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from typing import Any, Final

import orjson

from service.contract.cells import Cell

_KINDS: Final[Mapping[str, type[datetime | date | time]]] = {"datetime": datetime, "date": date, "time": time}
_SPAN: Final = "timedelta_s"


def dumps(value: object) -> bytes:
    """JSON of lists and objects with cells in them."""
    return orjson.dumps(value, default=_tagged, option=orjson.OPT_PASSTHROUGH_DATETIME)


def cells_of(values: Sequence[Any]) -> list[Cell]:
    """Cells of a list that was read from such JSON."""
    return [_cell(value) for value in values]


def _tagged(cell: object) -> dict[str, str | float]:
    if isinstance(cell, timedelta):
        return {_SPAN: cell.total_seconds()}
    for name, kind in _KINDS.items():
        # a datetime is a date as well
        if type(cell) is kind and isinstance(cell, date | time):
            return {name: cell.isoformat()}
    raise TypeError(f"{type(cell).__name__} is no cell")


def _cell(value: Any) -> Cell:
    if not isinstance(value, dict):
        cell: Cell = value
        return cell
    ((name, text),) = value.items()
    if name == _SPAN:
        return timedelta(seconds=text)
    return _KINDS[name].fromisoformat(text)
