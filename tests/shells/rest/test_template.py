"""GET /plan/template.xlsx: a workbook that asks with formulas."""

import html
import io
import re
import zipfile

from python_calamine import CalamineWorkbook
from starlette.testclient import TestClient

from service.shells.rest.media import XLSX

ASKED = {"model": "llama-3.3-70b:Q4_K_M", "gpus": "2x rtx-3090", "context_tokens": "16384", "parallel": "1"}


def formulas(content: bytes) -> list[str]:
    """Formulas of the first sheet, as they are in the file."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        sheet = archive.read("xl/worksheets/sheet1.xml").decode()
    return [html.unescape(found) for found in re.findall(r"<f>(.*?)</f>", sheet)]


def test_each_formula_asks_what_the_service_answers(client: TestClient) -> None:
    """Every field of the formulas has a value for the example, asked with the parameters that the formulas state."""
    found = formulas(client.get("/plan/template.xlsx").content)
    fields = {field for each in found for field in re.findall(r"field=(\w+)", each)}
    assert len(found) == 50 * len(fields) > 0
    assert all(f'{name}="&_xlfn.ENCODEURL(' in each for each in found for name in ASKED)
    assert all("_xlfn.WEBSERVICE(Settings!$B$1&" in each and "&problems=text&" in each for each in found)
    for field in fields:
        answer = client.get("/plan", params=ASKED | {"field": field, "problems": "text"})
        assert answer.status_code == 200
        assert not answer.text.startswith("#")


def test_the_address_and_the_choices_are_in_cells(client: TestClient) -> None:
    """The workbook asks where it came from, and lists every model and card of the catalogue."""
    answer = client.get("/plan/template.xlsx")
    assert answer.headers["content-type"] == XLSX
    workbook = CalamineWorkbook.from_filelike(io.BytesIO(answer.content))
    assert workbook.get_sheet_by_name("Settings").to_python()[0][1] == "http://testserver"
    models, cards = zip(*workbook.get_sheet_by_name("Lists").to_python()[1:], strict=True)
    assert ASKED["model"] in models
    assert "rtx-3090" in cards


def test_a_filled_template_can_be_uploaded(client: TestClient) -> None:
    """Its questions are answered without formulas too."""
    content = client.get("/plan/template.xlsx").content
    answer = client.post("/plan/batch", content=content, headers={"content-type": XLSX})
    header, row, *_ = CalamineWorkbook.from_filelike(io.BytesIO(answer.content)).get_sheet_by_index(0).to_python()
    assert row[header.index("plan_id")] == client.get("/plan", params=ASKED).json()["id"]
