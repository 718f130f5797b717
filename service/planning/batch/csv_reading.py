"""CSV as spreadsheets of all countries write it."""

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from service.contract.columns import column_of_header
from service.core.problems import InvalidRequest
from service.planning.batch.limits import Limits
from service.planning.batch.table import Row, Table

BOM: Final = "\ufeff"
_DELIMITERS: Final = ",;\t|"
_SAMPLE_CHARACTERS: Final = 64 * 1024
_EXCEL_DELIMITER: Final = re.compile(r'"?sep=(.)"?\r?\n', re.IGNORECASE)
_COMMA_NUMBER: Final = re.compile(r"(?<![\d.,])\d+,\d+(?![\d.,])")
_POINT_NUMBER: Final = re.compile(r"(?<![\d.,])\d+\.(?:\d{1,2}|\d{4,})(?![\d.,])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How a CSV is written; has_bom: whether what is written back starts with a byte order mark."""

    delimiter: str = ","
    line_end: str = "\r\n"
    decimal_comma: bool = False
    has_bom: bool = False


def read_csv(content: bytes, limits: Limits) -> tuple[Table, Dialect]:
    """The table in a CSV, and how it is written.

    UTF-8 with or without a byte order mark, UTF-16, and else Windows-1252. Raises InvalidRequest for what is none of
    them or no CSV, TooLarge.
    """
    text, is_utf8 = _decoded(content)
    has_bom = text.startswith(BOM) or not is_utf8
    text = text.removeprefix(BOM)
    excel = _EXCEL_DELIMITER.match(text)
    text = text[excel.end() :] if excel else text
    delimiter = excel[1] if excel else _delimiter(text)
    dialect = Dialect(
        delimiter=delimiter,
        line_end="\r\n" if "\r\n" in text[:_SAMPLE_CHARACTERS] or "\n" not in text else "\n",
        decimal_comma=delimiter != "," and _has_decimal_commas(text[:_SAMPLE_CHARACTERS], delimiter),
        has_bom=has_bom,
    )
    return _table(text, dialect, limits), dialect


def _decoded(content: bytes) -> tuple[str, bool]:
    """The text, and whether it was UTF-8."""
    start = content[:200]
    utf_16 = start.startswith((b"\xff\xfe", b"\xfe\xff"))
    if utf_16 or start.count(0) * 3 > len(start):
        order = "utf-16" if utf_16 else "utf-16-le" if start[1:2] == b"\0" else "utf-16-be"
        encodings = [order]
    else:
        encodings = ["utf-8", "cp1252"]
    for encoding in encodings:
        try:
            return content.decode(encoding), encoding == "utf-8"
        except UnicodeDecodeError:
            continue
    raise InvalidRequest("The CSV is neither UTF-8 nor UTF-16 nor Windows-1252 text.")


def _delimiter(text: str) -> str:
    """The delimiter under which the first line names the most columns."""
    lines = text[:_SAMPLE_CHARACTERS].lstrip("\r\n").splitlines()
    header = lines[0] if lines else ""

    def named(delimiter: str) -> tuple[int, int]:
        cells = next(csv.reader([header], delimiter=delimiter), [])
        return sum(column_of_header(cell) is not None for cell in cells), len(cells)

    return max(_DELIMITERS, key=named)


def _has_decimal_commas(sample: str, delimiter: str) -> bool:
    """Whether numbers have commas for points: where semicolons part cells they do unless points are seen."""
    if _COMMA_NUMBER.search(sample):
        return True
    return delimiter == ";" and _POINT_NUMBER.search(sample) is None


def _table(text: str, dialect: Dialect, limits: Limits) -> Table:
    def records() -> Iterator[list[str]]:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=dialect.delimiter)
        try:
            yield from reader
        except csv.Error as error:
            raise InvalidRequest(f"Line {reader.line_num} of the CSV cannot be read: {error}.") from None

    def rows() -> Iterator[Row]:
        lines = records()
        _first(lines)
        return lines

    lines = records()
    header = _first(lines)
    count, width = 0, len(header)
    for line in lines:
        count, width = count + 1, max(width, len(line))
        limits.check(count, width)
    limits.check(0, width)
    return Table(
        header=(*header, *[""] * (width - len(header))), rows=rows, count=count, decimal_comma=dialect.decimal_comma
    )


def _first(lines: Iterator[list[str]]) -> list[str]:
    """The header: the first line in which anything stands."""
    for line in lines:
        if any(cell.strip() for cell in line):
            return line
    return []
