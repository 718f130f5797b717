"""Workbooks, read in a process of their own that ends where one takes more memory than it may.

A small file can hold a large sheet: that is found out where it does no harm.
"""

import io
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Final

from service.contract.cells import Cell
from service.contract.columns import column_of_header
from service.core.problems import InvalidRequest
from service.planning.batch.limits import Limits, TooLarge
from service.planning.batch.table import Table

_LONGEST_S: Final = 60
_Rows = list[list[Cell]]


def read_xlsx(content: bytes, limits: Limits) -> Table:
    """The first sheet with a column named model, its first filled row the header; formulas are their last values.

    Raises InvalidRequest for what is no workbook or has no such sheet, TooLarge.
    """
    with ProcessPoolExecutor(
        1, mp_context=get_context("spawn"), initializer=_bounded, initargs=(limits.memory_bytes,)
    ) as process:
        try:
            rows, refused = process.submit(_read, content).result()
        except (BrokenProcessPool, MemoryError):
            raise TooLarge("Reading the workbook takes more memory or time than it may; send parts.") from None
    if refused is not None:
        raise InvalidRequest(refused)
    limits.check(len(rows) - 1, max(map(len, rows)))
    width = max(map(len, rows))
    header = (*rows[0], *[""] * (width - len(rows[0])))
    return Table(header=header, rows=lambda: iter(rows[1:]), count=len(rows) - 1)


def _bounded(memory_bytes: int) -> None:
    try:
        import resource  # noqa: PLC0415 - not everywhere
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (_LONGEST_S, _LONGEST_S))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _read(content: bytes) -> tuple[_Rows, str | None]:
    """The rows, or why there are none."""
    from python_calamine import CalamineError, CalamineWorkbook  # noqa: PLC0415 - only this process needs it

    try:
        workbook = CalamineWorkbook.from_filelike(io.BytesIO(content))
        for name in workbook.sheet_names:
            rows = _filled(workbook.get_sheet_by_name(name).to_python(skip_empty_area=True))
            if rows and any(column_of_header(cell) == "model" for cell in rows[0]):
                return rows, None
    except (CalamineError, ValueError) as error:
        return [], f"The body is no workbook that can be read: {error}."
    return [], "No sheet of the workbook has a column called model."


def _filled(rows: Sequence[Sequence[Cell]]) -> _Rows:
    """Rows from the first with anything in it; whole numbers as such."""
    start = next((at for at, row in enumerate(rows) if any(cell not in {"", None} for cell in row)), len(rows))
    return [[_cell(cell) for cell in row] for row in rows[start:]]


def _cell(cell: Cell) -> Cell:
    if cell == "":
        return None
    return int(cell) if isinstance(cell, float) and cell.is_integer() and abs(cell) < 1e15 else cell
