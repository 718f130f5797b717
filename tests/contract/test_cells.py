"""Cells: numbers as people write them, and text that must not run."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.contract.cells import as_typed, inert, runs_as_formula, text_of_number
from service.planning.batch.csv_reading import Dialect, read_csv
from service.planning.batch.csv_writing import csv_chunks
from service.planning.batch.limits import Limits

STARTS = ("=", "+", "-", "@", "\t", "\r")
TEXT = st.text(st.characters(codec="utf-8"), max_size=20)


@given(start=st.sampled_from(STARTS), rest=st.text(alphabet="abcxyzCMD|'!()\"", min_size=1))
def test_no_text_that_is_written_runs(start: str, rest: str) -> None:
    """A formula's start that begins no number has an apostrophe before it, and is read back as it was typed."""
    written = inert(start + rest)
    assert written == f"'{start}{rest}"
    assert inert(written) == written
    assert as_typed(written) == start + rest


@pytest.mark.parametrize("number", ["-5", "+3,5", "-1.234,5", "-1e-9", "1", "+49 30 1234", "-10%"])
def test_numbers_are_no_formulas(number: str) -> None:
    """A sign before a number runs nothing."""
    assert inert(number) == number


@pytest.mark.parametrize("text", ["-1+1", "-2+3+cmd|' /C calc'!A0", " =1+1", "+A1", "@SUM(1)", "\uff1d1", "-"])
def test_arithmetic_is_no_number(text: str) -> None:
    """What only begins like a number runs."""
    assert runs_as_formula(text)


@given(rows=st.lists(st.lists(TEXT, min_size=2, max_size=2), max_size=8), delimiter=st.sampled_from(",;\t|"))
def test_every_text_survives_a_table(rows: list[list[str]], delimiter: str) -> None:
    """What is written is read back as it was typed, whatever is in it, and no cell of the file runs."""
    dialect = Dialect(delimiter=delimiter)
    content = b"".join(csv_chunks(["model", "note"], rows, dialect))
    table, found = read_csv(content, Limits(rows=100))
    assert found.delimiter == delimiter
    typed = [[as_typed(cell) for cell in row] for row in table.rows()]
    assert typed == [[as_typed(inert(cell)) for cell in row] for row in rows]
    lines = csv.reader(io.StringIO(content.decode(), newline=""), delimiter=delimiter)
    assert not any(runs_as_formula(cell) for line in lines for cell in line)


@pytest.mark.parametrize(
    ("text", "is_whole", "decimal_comma", "meant"),
    [
        ("16.384", True, True, "16384"), ("16,384", True, False, "16384"), ("16 384", True, False, "16384"),
        ("1'048'576", True, False, "1048576"), ("32k", True, False, "32768"), ("1M", True, False, "1048576"),
        ("16384.0", True, False, "16384.0"), ("all", True, False, "all"), ("0,9", False, True, "0.9"),
        ("0,9", False, False, "0.9"), ("0.9", False, True, "0.9"), ("1.234,5", False, True, "1234.5"),
        ("1,234.5", False, False, "1234.5"), ("1.234", False, True, "1234"), ("1.234", False, False, "1.234"),
        ("1,234", False, False, "1234"), ("9,36E+11", False, True, "9.36E+11"), ("much", False, True, "much"),
    ],
)  # fmt: skip
def test_numbers_are_read_as_people_write_them(text: str, is_whole: bool, decimal_comma: bool, meant: str) -> None:
    """Groups of thousands, decimal commas and k; what is no number stays for the contract to refuse."""
    assert text_of_number(text, is_whole=is_whole, decimal_comma=decimal_comma) == meant
