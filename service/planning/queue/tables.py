"""CSV and workbooks as uploads of a job: a result is the cells of the columns of answers, as JSON."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from service.contract.cells import Cell
from service.contract.problem import Problem
from service.planning.batch.answering import BLANK, Plans, Question, answer_cells, question_of_cells, refused_cells
from service.planning.batch.csv_reading import Dialect, read_csv
from service.planning.batch.csv_writing import csv_chunks
from service.planning.batch.layout import Layout
from service.planning.batch.limits import Limits
from service.planning.batch.order import ROWS
from service.planning.batch.table import Table
from service.planning.batch.xlsx_reading import read_xlsx
from service.planning.batch.xlsx_writing import xlsx_chunks
from service.planning.queue.cell_text import cells_of
from service.planning.queue.kinds import Answered, Kind, Line, Reading

_CHUNK_ROWS: Final = 100
_REMEMBERED: Final = ROWS.remembered


def _reading(table: Table, dialect: Dialect) -> Reading:
    layout = Layout.of(table)

    def lines() -> Iterator[Line]:
        for row in table.rows():
            cells = layout.question(row)
            asked = None if cells is None else question_of_cells(cells, decimal_comma=table.decimal_comma)
            yield Line(layout.kept_cells(row), asked)

    written = {name: getattr(dialect, name) for name in Dialect.__slots__}
    shape = {"header": list(layout.header), "kept": len(layout.kept), "dialect": written}
    return Reading(shape, table.count, lines())


def _read_csv(content: bytes, limits: Limits) -> Reading:
    return _reading(*read_csv(content, limits))


def _read_xlsx(content: bytes, limits: Limits) -> Reading:
    return _reading(read_xlsx(content, limits), Dialect())


def _answer(plans: Plans, questions: Sequence[Question]) -> list[bytes]:
    return [orjson.dumps(cells) for cells in answer_cells(plans, questions, patient=True)]


def _refused(why: Problem) -> bytes:
    return orjson.dumps(refused_cells(why))


def _is_refused(result: bytes) -> bool:
    return orjson.loads(result)[-1] is not None


def _write_csv(rows: Iterable[Answered], layout: Mapping[str, Any], _: str) -> Iterator[bytes]:
    return csv_chunks(cells_of(layout["header"]), _whole(rows), Dialect(**layout["dialect"]))


def _write_xlsx(rows: Iterable[Answered], layout: Mapping[str, Any], _: str) -> Iterator[bytes]:
    return xlsx_chunks(cells_of(layout["header"]), _whole(rows), layout["kept"])


def _whole(rows: Iterable[Answered]) -> Iterator[list[Cell]]:
    return ([*row.kept, *orjson.loads(row.result)] for row in rows)


CSV_KIND: Final = Kind(
    media_type="text/csv", file_name="plans.csv", chunk_rows=_CHUNK_ROWS, remembered=_REMEMBERED, read=_read_csv,
    answer=_answer, refused=_refused, nothing=orjson.dumps(BLANK), is_refused=_is_refused, write=_write_csv,
)  # fmt: skip
XLSX_KIND: Final = Kind(
    media_type="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", file_name="plans.xlsx",
    chunk_rows=_CHUNK_ROWS, remembered=_REMEMBERED, read=_read_xlsx, answer=_answer, refused=_refused,
    nothing=orjson.dumps(BLANK), is_refused=_is_refused, write=_write_xlsx,
)  # fmt: skip
