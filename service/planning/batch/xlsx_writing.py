"""Rows as a workbook: formats, colours by verdict, and charts; rows are written out as they come."""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from typing import IO, Any, Final

import xlsxwriter

from service.contract.cells import Cell, runs_as_formula
from service.planning.batch.layout import PROBLEM
from service.planning.batch.xlsx_formats import CHARTS, DEFAULT_WIDTH, NUMBER_FORMATS, VERDICT_COLOURS, WIDTHS

_CHUNK_BYTES: Final = 64 * 1024
_LONGEST_TEXT: Final = 32_767
_SHEET: Final = "plans"
# more bars than that cannot be told apart
_MOST_BARS: Final = 60
_OPTIONS: Final = {
    "constant_memory": True, "strings_to_formulas": False, "strings_to_numbers": False, "strings_to_urls": False,
    "nan_inf_to_errors": True,
}  # fmt: skip


def xlsx_chunks(header: Sequence[Cell], rows: Iterable[Sequence[Cell]], kept: int) -> Iterator[bytes]:
    """A workbook in pieces; the first `kept` columns are the table's own, the others its answers."""
    with tempfile.TemporaryFile() as file:
        write_xlsx(file, header, rows, kept)
        file.seek(0)
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk


def write_xlsx(file: IO[bytes], header: Sequence[Cell], rows: Iterable[Sequence[Cell]], kept: int) -> None:
    """Write a workbook; text stays text, even where a spreadsheet would run it as a formula once it is edited."""
    with xlsxwriter.Workbook(file, _OPTIONS) as workbook:
        sheet = _Sheet(workbook, header, kept)
        for at, row in enumerate(rows, 1):
            sheet.write(at, row)
        sheet.finish()


class _Sheet:
    """The sheet of rows, and the charts of them."""

    def __init__(self, workbook: xlsxwriter.Workbook, header: Sequence[Cell], kept: int) -> None:
        self._workbook = workbook
        self._sheet = workbook.add_worksheet(_SHEET)
        self._results = {str(name): at for at, name in enumerate(header) if at >= kept}
        self._width = len(header)
        self._last = 0
        self._quoted = workbook.add_format({"quote_prefix": True})
        self._dates = [workbook.add_format({"num_format": shape}) for shape in ("yyyy-mm-dd", "yyyy-mm-dd hh:mm:ss")]
        self._hours = workbook.add_format({"num_format": "[h]:mm:ss"})
        formats = {name: workbook.add_format({"num_format": shape}) for name, shape in NUMBER_FORMATS.items()}
        self._formats = {at: formats[name] for name, at in self._results.items() if name in formats}
        for name, at in self._results.items():
            self._sheet.set_column(at, at, WIDTHS.get(name, DEFAULT_WIDTH))
        self._sheet.set_column(0, max(0, kept - 1), 20)
        self._sheet.freeze_panes(1, 0)
        bold = {"bold": True, "text_wrap": True, "valign": "top", "bottom": 1, "quote_prefix": True}
        own, answers = workbook.add_format(bold), workbook.add_format({**bold, "bg_color": "#DDEBF7"})
        for at, cell in enumerate(header):
            if cell not in {None, ""}:
                self._sheet.write_string(0, at, str(cell)[:_LONGEST_TEXT], answers if at >= kept else own)

    def write(self, row_index: int, row: Sequence[Cell]) -> None:
        """Write one row; rows come in their order."""
        self._last = row_index
        for at, cell in enumerate(row):
            if cell is not None and cell != "":
                self._write(row_index, at, cell)

    def _write(self, row: int, at: int, cell: Cell) -> None:
        sheet, shape = self._sheet, self._formats.get(at)
        if isinstance(cell, str):
            sheet.write_string(row, at, cell[:_LONGEST_TEXT], self._quoted if runs_as_formula(cell) else None)
        elif isinstance(cell, bool):
            sheet.write_boolean(row, at, cell)
        elif isinstance(cell, datetime | date):
            sheet.write_datetime(row, at, cell, self._dates[isinstance(cell, datetime)])
        elif isinstance(cell, time | timedelta):
            sheet.write_datetime(row, at, cell, self._hours)
        elif cell is not None:
            sheet.write_number(row, at, cell, shape)

    def finish(self) -> None:
        """Filter, colours and charts over what was written."""
        self._sheet.autofilter(0, 0, self._last, self._width - 1)
        if self._last == 0:
            return
        for verdict, (background, text) in VERDICT_COLOURS.items():
            shape = self._workbook.add_format({"bg_color": background, "font_color": text})
            self._colour("verdict", {"type": "cell", "criteria": "==", "value": f'"{verdict}"', "format": shape})
        wrong = self._workbook.add_format({"bg_color": "#FFC7CE", "font_color": "#9C0006"})
        self._colour(PROBLEM, {"type": "no_blanks", "format": wrong})
        negative = self._workbook.add_format({"font_color": "#C00000"})
        self._colour("least_headroom_bytes", {"type": "cell", "criteria": "<", "value": 0, "format": negative})
        self._colour("decode_tokens_per_s", {"type": "data_bar", "bar_color": "#9BC2E6"})
        for title, column, axis in CHARTS:
            self._chart(title, column, axis)

    def _colour(self, column: str, rule: dict[str, Any]) -> None:
        at = self._results[column]
        self._sheet.conditional_format(1, at, self._last, at, rule)

    def _chart(self, title: str, column: str, axis: str) -> None:
        shown = min(self._last, _MOST_BARS)
        chart = self._workbook.add_chart({"type": "bar"})
        at, model, gpus = (self._results[name] for name in (column, "planned_model", "planned_gpus"))
        chart.add_series(
            {
                "name": title,
                "categories": [_SHEET, 1, min(model, gpus), shown, max(model, gpus)],
                "values": [_SHEET, 1, at, shown, at],
                "gap": 40,
            }
        )
        chart.set_title({"name": title if shown == self._last else f"{title}, the first {shown} rows"})
        chart.set_x_axis({"name": axis})
        chart.set_y_axis({"reverse": True})
        chart.set_legend({"none": True})
        self._workbook.add_chartsheet(title).set_chart(chart)
