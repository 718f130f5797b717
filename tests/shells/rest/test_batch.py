"""POST /plan/batch: lists, CSV and workbooks, answered as the same."""

import csv
import io
import json
from typing import Any

import pytest
import xlsxwriter
from python_calamine import CalamineWorkbook
from starlette.testclient import TestClient

from service.app import create_app
from service.planning.batch.layout import RESULT_COLUMNS
from service.planning.batch.order import FEW_QUESTIONS
from service.settings import Settings
from service.shells.rest.media import CSV, XLSX
from tests.databases import Databases, migrate_and_seed
from tests.shells.rest.test_problems import expect_problem

ROWS = (
    "Ref,Model,GPU,Context (tokens),note\r\n"
    "A1,llama-3.3-70b:Q4_K_M,2x rtx-3090,16384,first\r\n"
    "A2,llama-3.3-70b:Q4_K_M,rtx-3091,16384,no such card\r\n"
    ",,,,\r\n"
    'A4,llama-3.1-8b,"2x rtx-3090 + rtx-4090",8k,"two\r\nlines"\r\n'
)


def posted(client: TestClient, content: bytes | str, media_type: str = CSV) -> bytes:
    answer = client.post("/plan/batch", content=content, headers={"content-type": media_type})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith(media_type)
    return answer.content


def rows_of(content: bytes, delimiter: str = ",") -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline=""), delimiter=delimiter))


def test_rows_come_back_with_their_answers(client: TestClient) -> None:
    """Own columns as they were, figures as GET /plan gives them, and a row that cannot be answered says why."""
    first, wrong, blank, last = rows_of(posted(client, ROWS))
    asked = {"model": "llama-3.3-70b:Q4_K_M", "gpus": "2x rtx-3090", "context_tokens": "16384"}
    plan = client.get("/plan", params=asked).json()
    assert (first["Ref"], first["note"], first["plan_id"]) == ("A1", "first", plan["id"])
    assert float(first["decode_tokens_per_s"]) == plan["speed"]["decode_tokens_per_s"]["mid"]
    assert first["problem"] == ""
    assert wrong["problem"].startswith("Unknown GPU: ")
    assert wrong["verdict"] == ""
    assert set(blank.values()) == {""}
    assert (last["note"], last["planned_gpus"]) == ("two\r\nlines", "rtx-3090, rtx-3090, rtx-4090")
    assert last["planned_context_tokens"] == "8192"


def test_what_was_downloaded_can_be_uploaded(client: TestClient) -> None:
    """Answers of an earlier time are answered anew: the same bytes."""
    once = posted(client, ROWS)
    assert posted(client, once) == once


@pytest.mark.parametrize(("form", "media_type"), [("csv", CSV), ("xlsx", XLSX)])
def test_rows_go_back_in_the_form_that_is_asked_for(client: TestClient, form: str, media_type: str) -> None:
    """A CSV as a workbook, a workbook as CSV: the same cells."""
    content = client.post("/plan/batch?format=xlsx", content=ROWS, headers={"content-type": CSV}).content
    answer = client.post(f"/plan/batch?format={form}", content=content, headers={"content-type": XLSX})
    assert answer.headers["content-type"].startswith(media_type)
    sheet = CalamineWorkbook.from_filelike(io.BytesIO(content)).get_sheet_by_index(0).to_python()
    if form == "csv":
        assert [row["plan_id"] for row in rows_of(answer.content)] == [
            row[sheet[0].index("plan_id")] for row in sheet[1:]
        ]
    else:
        assert CalamineWorkbook.from_filelike(io.BytesIO(answer.content)).get_sheet_by_index(0).to_python() == sheet


@pytest.mark.parametrize(("body", "media_type", "form"), [("[]", "application/json", "csv"), (ROWS, CSV, "ods")])
def test_other_forms_are_refused(client: TestClient, body: str, media_type: str, form: str) -> None:
    """Nothing that is asked for is passed over."""
    headers = {"content-type": media_type}
    answer = client.post(f"/plan/batch?format={form}", content=body, headers=headers)
    assert [error.pointer for error in expect_problem(answer, "invalid-request").errors] == ["/format"]


def test_a_row_of_a_plan_can_be_uploaded(client: TestClient) -> None:
    """The CSV of GET /plan asks the question that it answers: same columns, same figures."""
    asked = {"model": "llama-3.3-70b:Q4_K_M", "gpus": "2x rtx-3090", "context_tokens": "16384", "format": "csv"}
    row = client.get("/plan", params=asked).content
    header, cells = csv.reader(io.StringIO(posted(client, row).decode(), newline=""))
    assert cells[header.index("plan_id")] == cells[header.index("id")]
    assert cells[-2] == rows_of(row)[0]["command"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_csv_of_all_countries_is_read(client: TestClient, encoding: str, line_end: str, delimiter: str) -> None:
    """Encoding, byte order mark, line ends and delimiter change nothing about the answer."""
    lines = [["Größe", "model", "gpu", "bandwidth_fraction"], ["à", "llama-3.1-8b", "rtx-3090", "0.7"]]
    text = "".join(delimiter.join(line) + line_end for line in lines)
    content = posted(client, text.encode(encoding))
    (row,) = rows_of(content, delimiter)
    asked = {"model": "llama-3.1-8b", "gpus": "rtx-3090", "bandwidth_fraction": "0.7"}
    assert (row["Größe"], row["problem"]) == ("à", "")
    assert row["plan_id"] == client.get("/plan", params=asked).json()["id"]
    assert content.decode().startswith("\ufeff") == (encoding != "utf-8")


def test_decimal_commas_are_read_and_written(client: TestClient) -> None:
    """A table with semicolons and 0,7 gets its numbers like that, thousands with points included."""
    german = "model;gpu;bandwidth_fraction;Kontext;context\nllama-3.1-8b;rtx-3090;0,7;x;16.384\n"
    (row,) = rows_of(posted(client, german), ";")
    asked = {"model": "llama-3.1-8b", "gpus": "rtx-3090", "bandwidth_fraction": "0.7", "context_tokens": "16384"}
    plan = client.get("/plan", params=asked).json()
    assert row["plan_id"] == plan["id"]
    assert row["decode_tokens_per_s"] == str(plan["speed"]["decode_tokens_per_s"]["mid"]).replace(".", ",")


def test_a_list_gives_a_list(client: TestClient) -> None:
    """An empty one too, and what is no request has its problem with its place."""
    assert client.post("/plan/batch", json=[]).json() == []
    expect_problem(client.post("/plan/batch", json={}), "invalid-request")
    lines = client.post("/plan/batch", json=[{"model": "nothing"}] * 3).json()
    assert [line["problem"]["instance"] for line in lines] == [f"/plan/batch#/{index}" for index in range(3)]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "No column is called model"),
        ("ref,gpu\n1,rtx-3090\n", "'ref', 'gpu'"),
        ("model,gpu,GPUs\nx,y,z\n", "'gpu' and 'GPUs'"),
        (b"model\n\x81\x8d", "neither UTF-8"),
    ],
)
def test_a_table_that_asks_nothing_is_refused(client: TestClient, content: str | bytes, said: str) -> None:
    """Without a column for the model, or with two for one thing, nothing is guessed."""
    answer = client.post("/plan/batch", content=content, headers={"content-type": CSV})
    assert said in expect_problem(answer, "invalid-request").detail


def test_only_lists_and_tables_are_read(client: TestClient) -> None:
    """A body of another media type, or of none, is refused."""
    for headers in ({"content-type": "text/html"}, {"content-type": "application/x-www-form-urlencoded"}, {}):
        expect_problem(client.post("/plan/batch", content=b"model\nx", headers=headers), "unsupported-media")


def test_more_than_is_read_is_refused(sqlite: Databases) -> None:
    """More bytes or rows than the settings allow are too large, in every kind of body."""
    settings = Settings(
        database_url=sqlite.copy_of("seeded", migrate_and_seed), max_batch_bytes=2000, max_batch_rows=3, model_hosts=()
    )
    with TestClient(create_app(settings)) as client:
        for body, media_type in ((b"model\n" + b"x\n" * 4, CSV), (b"[1,2,3,4]", "application/json")):
            refused = client.post("/plan/batch", content=body, headers={"content-type": media_type})
            assert "3 rows" in expect_problem(refused, "too-large").detail
            long = client.post("/plan/batch", content=b" " * 2001, headers={"content-type": media_type})
            assert "2000 bytes" in expect_problem(long, "too-large").detail


def test_a_large_table_is_answered_by_several_processes(client: TestClient) -> None:
    """Order and figures are those of one question at a time, problems included."""
    count = FEW_QUESTIONS * 4
    lines = [f"{at},llama-3.2-1b,{'rtx-3090' if at % 3 else 'rtx-0'},{256 * (1 + at)}" for at in range(count)]
    rows = rows_of(posted(client, "\n".join(["ref,model,gpu,context", *lines])))
    assert [int(row["ref"]) for row in rows] == list(range(count))
    assert [bool(row["problem"]) for row in rows] == [at % 3 == 0 for at in range(count)]
    asked: dict[str, Any] = {"model": "llama-3.2-1b", "gpus": "rtx-3090", "context_tokens": 256 * 96, "format": "csv"}
    (single,) = rows_of(client.get("/plan", params=asked).content)
    assert rows[95] | {"plan_id": single["id"], "command": single["command"]} == rows[95]
    documents = [{"model": "llama-3.2-1b", "workload": {"context_tokens": 256 * (1 + at)}} for at in range(count)]
    answers = client.post("/plan/batch", json=documents).json()
    assert [answer["plan"]["workload"]["context_tokens"] for answer in answers] == [
        256 * (1 + at) for at in range(count)
    ]


def test_a_workbook_comes_back_as_one(client: TestClient) -> None:
    """The same answers as the CSV's, numbers as numbers, and once more from what was downloaded."""
    first = posted(client, workbook_of(ROWS), XLSX)
    again = posted(client, first, XLSX)
    rows, repeated = (sheet_rows(content) for content in (first, again))
    assert rows == repeated
    header, (text, *_) = rows[0], rows_of(posted(client, ROWS))
    row = dict(zip(header, rows[1], strict=True))
    assert row["verdict"] == "fits"
    assert row["busiest_device_bytes"] == int(text["busiest_device_bytes"])
    assert row["decode_tokens_per_s"] == pytest.approx(float(text["decode_tokens_per_s"]), rel=1e-14)
    assert header[-len(RESULT_COLUMNS) :] == list(RESULT_COLUMNS)


def sheet_rows(content: bytes) -> list[list[Any]]:
    return CalamineWorkbook.from_filelike(io.BytesIO(content)).get_sheet_by_index(0).to_python()


def workbook_of(text: str) -> bytes:
    file = io.BytesIO()
    with xlsxwriter.Workbook(file) as workbook:
        sheet = workbook.add_worksheet()
        for at, row in enumerate(csv.reader(io.StringIO(text, newline=""))):
            sheet.write_row(at, 0, [int(cell) if cell.isdigit() else cell for cell in row])
    return file.getvalue()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"model,gpu\nx,y\n", json.dumps([1]).encode()])
def test_what_is_no_workbook_is_refused(client: TestClient, content: bytes) -> None:
    """A body that only says it is a workbook is a problem of the request."""
    answer = client.post("/plan/batch", content=content, headers={"content-type": XLSX})
    expect_problem(answer, "invalid-request")
