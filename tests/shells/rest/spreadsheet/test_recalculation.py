"""Workbooks of the service in LibreOffice: formulas that ask it, answers that come back as they left."""

import io
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from python_calamine import CalamineWorkbook

from service.shells.rest.media import CSV, XLSX
from tests.shells.rest.spreadsheet.conftest import Office, Sheet

# a rig of unlike cards, one that is too small, one card that nobody makes
QUESTIONS = (
    ("llama-3.3-70b:Q4_K_M", "2x rtx-3090", "16384", "1"),
    ("llama-3.1-8b:Q4_K_M", "rtx-3090 + rtx-4090", "32768", "4"),
    ("llama-3.1-405b:Q4_K_M", "rtx-3090", "8192", ""),
    ("llama-3.1-8b:Q4_K_M", "rtx-3091", "8192", ""),
)
ROWS = (
    "Ref;Modell;model;gpus;context_tokens;note\r\n"
    "A1;=1+1;llama-3.3-70b:Q4_K_M;2x rtx-3090;16384;ä, ö\r\n"
    "A2;;llama-3.1-8b:Q4_K_M;rtx-3091;8192;keine\r\n"
    "A3;;llama-3.1-8b:Q4_K_M;rtx-3090 + rtx-4090;32768;\r\n"
)
# field and text delimiters as code points, character set (UTF-8), first line, columns, language, quote all, as shown
GERMAN = "59,34,76,1,,1031,false,true"
AMERICAN = "44,34,76,1,,1033,false,false"
CSV_FILTER = "Text - txt - csv (StarCalc)"
XLSX_FILTER = "Calc MS Excel 2007 XML"


@pytest.fixture(scope="module")
def client(site: str) -> Iterator[httpx2.Client]:
    """A client of the server that the formulas ask."""
    with httpx2.Client(base_url=site, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def filled(office: Office, client: httpx2.Client) -> Sheet:
    """The template with questions typed in, recalculated."""
    cells = {
        f"{column}{row}": text
        for row, asked in enumerate(QUESTIONS, 2)
        for column, text in zip("ABCD", asked, strict=True)
    }
    return office.calculate(client.get("/plan/template.xlsx").content, cells)


@pytest.mark.parametrize("at", range(3))
def test_formulas_of_the_template_fetch_what_the_service_answers(filled: Sheet, client: httpx2.Client, at: int) -> None:
    """Every field of a question is the value that GET /plan gives for it, as a number where it is one."""
    row = filled.rows()[at]
    asked = {
        name: text
        for name, text in zip(("model", "gpus", "context_tokens", "parallel"), QUESTIONS[at], strict=True)
        if text
    }
    fields = [name for name in row if name not in {"model", "gpus", "context_tokens", "parallel"}]
    assert len(fields) > 5
    for field in fields:
        told = client.get("/plan", params={**asked, "field": field, "problems": "text"}).text
        assert row[field] == (told if field == "verdict" or told == "" else pytest.approx(float(told), rel=1e-12))


def test_a_question_that_cannot_be_answered_says_why_in_its_row(filled: Sheet) -> None:
    """Once, where the verdict would be; the other cells stay empty, and no cell shows an error."""
    row = filled.rows()[3]
    assert row["verdict"].startswith("#Unknown GPU: ")
    assert {value for name, value in row.items() if name.endswith(("_s", "_bytes", "_w"))} == {""}
    assert not any(any(errors) for errors in filled.errors)


def test_rows_that_ask_nothing_stay_empty(filled: Sheet) -> None:
    """Formulas of rows without a model show nothing."""
    assert {cell for row in filled.shown[5:] for cell in row} == {""}


@pytest.fixture(scope="module")
def answered(client: httpx2.Client) -> bytes:
    """A workbook with answers, as it is downloaded."""
    answer = client.post("/plan/batch?format=xlsx", content=ROWS.encode(), headers={"content-type": CSV})
    assert answer.headers["content-type"].startswith(XLSX)
    return answer.content


def table(content: bytes) -> list[list[Any]]:
    return CalamineWorkbook.from_filelike(io.BytesIO(content)).get_sheet_by_index(0).to_python()


def test_answers_open_without_an_error(office: Office, answered: bytes) -> None:
    """Cells are those of the file once everything is recalculated; text that looks like a formula stays text."""
    opened = office.calculate(answered)
    assert opened.values == table(answered)
    assert opened.values[1][1] == "=1+1"
    assert not any(any(errors) for errors in opened.errors)
    assert opened.charts > 0


@pytest.mark.parametrize(
    ("name", "how", "media_type"),
    [
        ("again.xlsx", (XLSX_FILTER, ""), XLSX),
        ("german.csv", (CSV_FILTER, GERMAN), CSV),
        ("american.csv", (CSV_FILTER, AMERICAN), CSV),
    ],
)
def test_what_it_saves_is_answered_the_same(
    office: Office, client: httpx2.Client, answered: bytes, name: str, how: tuple[str, str], media_type: str
) -> None:
    """Rows that LibreOffice saved, as a workbook, with decimal commas or with points, get the same answers again."""
    office.calculate(answered, saves=[(name, *how)])
    headers = {"content-type": media_type}
    again = client.post("/plan/batch?format=xlsx", content=office.saved(name), headers=headers)
    assert again.status_code == 200, again.text
    header, *rows = table(again.content)
    expected_header, *expected = table(answered)
    answers = [at for at, column in enumerate(expected_header) if at >= 6]
    assert header == expected_header
    assert [[row[at] for at in answers] for row in rows] == [[row[at] for at in answers] for row in expected]
