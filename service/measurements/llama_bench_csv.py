"""llama-bench -o csv: a line of column names, then a row a line.

Source: csv_printer, tools/llama-bench/llama-bench.cpp (llama.cpp in llama-cpp-python 0.3.36).
"""

import csv
from collections.abc import Sequence

from service.measurements.llama_bench_rows import RATE_COLUMN, figures_of, setup_of
from service.measurements.pieces import Piece
from service.measurements.runs import Run, Unread
from service.measurements.text import Text

FORMAT = "llama-bench csv"


def read_csv(text: Text, at: int) -> Piece | None:
    """The table that begins at line `at`, None where none does; it ends where lines have other columns."""
    columns = _columns(text.lines[at])
    if columns is None:
        return None
    piece = Piece(format=FORMAT, end=at + 1)
    for line in text.lines[at + 1 :]:
        values = _values(line)
        if len(values) < 2 or _columns(line) is not None:
            break
        _read_row(piece, columns, values, line)
        piece.end += 1
    return piece


def _columns(line: str) -> Sequence[str] | None:
    values = _values(line)
    return values if {RATE_COLUMN, "n_prompt", "n_gen"} <= set(values) else None


def _values(line: str) -> list[str]:
    try:
        return [value.strip() for value in next(csv.reader([line], strict=True), [])]
    except csv.Error:
        return []


def _read_row(piece: Piece, columns: Sequence[str], values: Sequence[str], line: str) -> None:
    number = piece.end + 1
    if len(values) != len(columns):
        reason = f"has {len(values)} values under {len(columns)} columns"
        piece.unread.append(Unread(line=number, text=line[:200], reason=reason))
        return
    row = dict(zip(columns, values, strict=True))
    figures = list(figures_of(row))
    if not figures:
        piece.unread.append(Unread(line=number, text=line[:200], reason="has no test with a rate"))
    piece.runs.extend(Run(setup=setup_of(row), figure=figure, line=number) for figure in figures)
