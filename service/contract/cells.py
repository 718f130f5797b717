"""Cells of spreadsheets: what is in one, numbers as people write them, and text that must not become a formula."""

import re
from datetime import date, datetime, time, timedelta
from typing import Final, TypeAlias

Cell: TypeAlias = str | int | float | bool | date | datetime | time | timedelta | None

# how text starts that a spreadsheet runs as a formula where it opens a CSV, full-width forms included (OWASP, CSV
# Injection)
_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_TEXT_MARK: Final = "'"
_NUMBER: Final = re.compile(r"[-+]?(?:\d[\d.,'\u2019 \u00a0\u202f]*|[.,]\d+)(?:[eE][-+]?\d+)?\s?%?")
_GROUPED: Final = re.compile(r"\d{1,3}(?:([.,'\u2019 \u00a0\u202f])\d{3})(?:\1\d{3})*")
_THOUSANDS: Final = re.compile(r"(\d+)\s?([kKmM])")
_GROUPS: Final = re.compile(r"['\u2019 \u00a0\u202f]")


def runs_as_formula(text: str) -> bool:
    """Whether a spreadsheet that opens a file could run a text as a formula; a signed number is none."""
    return text.lstrip(" \u00a0").startswith(_FORMULA_STARTS) and _NUMBER.fullmatch(text.strip()) is None


def inert(text: str) -> str:
    """The text with an apostrophe in front where it could run as a formula."""
    return _TEXT_MARK + text if runs_as_formula(text) else text


def as_typed(cell: Cell) -> str:
    """The text of a cell as somebody typed it: without the apostrophe that keeps text from running, whole as 1."""
    if isinstance(cell, str):
        return cell[1:] if cell.startswith(_TEXT_MARK) and runs_as_formula(cell[1:]) else cell
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return "" if cell is None else str(cell)


def text_of_number(text: str, *, is_whole: bool, decimal_comma: bool) -> str:
    """A number as programs write it: 16.384, 16 384 and 16k are 16384 where whole numbers are meant.

    decimal_comma: whether the table writes 0,9; there 1.234 is 1234, elsewhere 1,234 is. What is no number stays.
    """
    if is_whole:
        thousands = _THOUSANDS.fullmatch(text)
        if thousands:
            return str(int(thousands[1]) * 1024 ** (1 if thousands[2] in "kK" else 2))
        return re.sub(r"\D", "", text) if _GROUPED.fullmatch(text) else text
    if _NUMBER.fullmatch(text) is None:
        return text
    text = _GROUPS.sub("", text)
    comma, point = text.rfind(","), text.rfind(".")
    if comma >= 0 and point >= 0:
        return text.replace(".", "").replace(",", ".") if comma > point else text.replace(",", "")
    grouped = _GROUPED.fullmatch(text)
    if grouped and (grouped[1] == ("." if decimal_comma else ",") or len(text) > 7):
        return re.sub(r"\D", "", text)
    return text.replace(",", ".")
