"""llama-bench -o sql: a CREATE TABLE, then an INSERT a row.

Source: sql_printer, tools/llama-bench/llama-bench.cpp:2117 (llama.cpp in llama-cpp-python 0.3.36); its quotes are not
escaped. Earlier versions called the table `test`.
"""

import csv
import re
from typing import Final

from service.measurements.llama_bench_rows import figures_of, setup_of
from service.measurements.pieces import Piece
from service.measurements.runs import Run, Unread
from service.measurements.text import Text

FORMAT = "llama-bench sql"

_CREATE: Final = re.compile(r"\s*CREATE TABLE IF NOT EXISTS (?:llama_bench|test)\b", re.IGNORECASE)
_MOST_COLUMNS: Final = 200
_INSERT: Final = re.compile(r"\s*INSERT INTO (?:llama_bench|test) \(([\w, ]+)\)\s*VALUES \((.*)\);?\s*", re.IGNORECASE)


def read_sql(text: Text, at: int) -> Piece | None:
    """The statement that begins at line `at`, None where none does."""
    if _CREATE.match(text.lines[at]):
        lines = range(at, min(len(text.lines), at + _MOST_COLUMNS))
        last = next((number for number in lines if text.lines[number].strip() == ");"), at)
        return Piece(format=FORMAT, end=last + 1)
    match = _INSERT.fullmatch(text.lines[at])
    if match is None:
        return None
    piece = Piece(format=FORMAT, end=at + 1)
    columns = [column.strip() for column in match[1].split(",")]
    values = next(csv.reader([match[2]], quotechar="'", skipinitialspace=True), [])
    row = dict(zip(columns, values, strict=False))
    figures = list(figures_of(row)) if len(values) == len(columns) else []
    if not figures:
        piece.unread.append(Unread(line=at + 1, text=text.lines[at][:200], reason="is no row of a test with a rate"))
    piece.runs.extend(Run(setup=setup_of(row), figure=figure, line=at + 1) for figure in figures)
    return piece
