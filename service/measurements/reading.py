"""Text that benchmark programs printed → every figure in it, and every line that was not understood."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from service.measurements.batched_bench import read_batched_table
from service.measurements.json_objects import BROKEN, read_json, with_numbers_as_json
from service.measurements.llama_bench_csv import read_csv
from service.measurements.llama_bench_markdown import read_markdown
from service.measurements.llama_bench_sql import read_sql
from service.measurements.logs import Around, completed, is_footer, is_tolerated
from service.measurements.pieces import Piece
from service.measurements.runs import Report, Run, Unread
from service.measurements.text import Text

Reader: TypeAlias = Callable[[Text, int], Piece | None]

# a new format is one more reader here
READERS: Final[Sequence[Reader]] = (read_json, read_sql, read_csv, read_markdown, read_batched_table)
READERS_BUT_JSON: Final = tuple(read for read in READERS if read is not read_json)
# where JSON breaks off so often it is none; saying where costs the length of the text each time
MOST_BROKEN: Final = 100


def read_report(content: str) -> Report:
    """Read everything that a text holds, whatever stands around it.

    A table of llama-bench is completed by the lines around it: cards and model from the log before, the build from the
    footer behind.
    """
    text = Text(with_numbers_as_json(content.removeprefix("\ufeff")))
    around, pieces = Around(), []
    unread: list[Unread] = []
    at = broken = 0
    while at < len(text.lines):
        if not text.lines[at].strip():
            at += 1
            continue
        piece = _piece(text, at, READERS if broken < MOST_BROKEN else READERS_BUT_JSON)
        if piece is not None:
            pieces.append((piece, around))
            broken += sum(1 for one in piece.unread if one.reason == BROKEN)
            at = piece.end
            continue
        line = text.lines[at]
        told = around.with_line(line)
        if told is not None and is_footer(line):
            pieces = [(piece, _with_build(before, told)) for piece, before in pieces]
        elif told is not None:
            around = told
        elif not is_tolerated(line):
            unread.append(Unread(line=at + 1, text=line.strip()[:200], reason="is no benchmark output"))
        at += 1
    return Report(
        runs=[run for piece, before in pieces for run in _runs(piece, before)],
        unread=sorted([*unread, *(missed for piece, _ in pieces for missed in piece.unread)], key=lambda one: one.line),
        formats=tuple(dict.fromkeys(piece.format for piece, _ in pieces if piece.format)),
    )


def _piece(text: Text, at: int, readers: Sequence[Reader]) -> Piece | None:
    return next((piece for read in readers if (piece := read(text, at)) is not None), None)


def _with_build(before: Around, told: Around) -> Around:
    """The build that is told behind a table is the table's, unless one was told before it."""
    return before if before.build else replace(before, build=told.build)


def _runs(piece: Piece, around: Around) -> Sequence[Run]:
    return [completed(run, around) for run in piece.runs] if piece.needs_context else piece.runs
