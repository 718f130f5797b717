"""`rigfit batch`: a CSV or workbook of questions answered into a file, with a bar."""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from service.contract.cells import Cell
from service.core.problems import InvalidRequest
from service.planning.batch.csv_reading import Dialect, read_csv
from service.planning.batch.csv_writing import csv_chunks
from service.planning.batch.layout import PROBLEM, Layout
from service.planning.batch.limits import Limits
from service.planning.batch.processes import BatchProcesses
from service.planning.batch.rows import answered_rows
from service.planning.batch.table import Table
from service.planning.batch.xlsx_reading import read_xlsx
from service.planning.batch.xlsx_writing import xlsx_chunks
from service.planning.local import local_planner

_KINDS = (".csv", ".xlsx")
# what is on this computer is its owner's to bound; a sheet has no more rows
_LIMITS = Limits(rows=1_048_575, memory_bytes=8 << 30)


def batch(source: Path, target: Path) -> None:
    """Answer every row of `source` into `target`; raises PlanProblem before anything is written."""
    table, dialect = _read(source)
    kind = _kind(target)
    layout = Layout.of(table)
    with closing(BatchProcesses(local_planner(), local_planner)) as processes:
        rows = _Counted(answered_rows(table, layout, processes), table.count)
        if kind == ".xlsx":
            chunks = xlsx_chunks(layout.header, rows, len(layout.kept))
        else:
            chunks = csv_chunks(layout.header, rows, dialect)
        write_whole(target, chunks)
    refused = f", {rows.refused:,} of them with a problem" if rows.refused else ""
    sys.stderr.write(f"{target}: {table.count:,} rows{refused}\n")


def _read(source: Path) -> tuple[Table, Dialect]:
    kind = _kind(source)
    try:
        content = source.read_bytes()
    except OSError as error:
        raise InvalidRequest(f"{source} cannot be read: {error.strerror}.") from None
    return (read_xlsx(content, _LIMITS), Dialect()) if kind == ".xlsx" else read_csv(content, _LIMITS)


def _kind(path: Path) -> str:
    kind = path.suffix.lower()
    if kind not in _KINDS:
        raise InvalidRequest(f"{path}: a table is a file that ends in {' or '.join(_KINDS)}.")
    return kind


def write_whole(target: Path, chunks: Iterable[bytes]) -> None:
    """Write beside the target and put it in its place when it is whole: it may be what was read."""
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with unfinished.open("wb") as file:
            file.writelines(chunks)
        unfinished.replace(target)
    except OSError as error:
        raise InvalidRequest(f"{target} cannot be written: {error.strerror}.") from None
    finally:
        unfinished.unlink(missing_ok=True)


class _Counted:
    """Rows that move a bar as they pass, on the standard error where that is a terminal; refused: with a problem."""

    def __init__(self, rows: Iterator[Sequence[Cell]], count: int) -> None:
        self._rows = rows
        self._count = count
        self.refused = 0

    def __iter__(self) -> Iterator[Sequence[Cell]]:
        console = Console(stderr=True)
        columns = (TextColumn("rows"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
            task = bar.add_task(PROBLEM, total=self._count)
            for row in self._rows:
                self.refused += row[-1] is not None
                bar.advance(task)
                yield row
