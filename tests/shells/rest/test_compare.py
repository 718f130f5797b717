"""POST /compare."""

import csv
import io

from starlette.testclient import TestClient

from service.contract.compare import EXAMPLE_COMPARISON, Comparison


def test_a_comparison_is_a_table(client: TestClient) -> None:
    """The example of the document is answered with a row per combination."""
    answer = client.post("/compare", json=EXAMPLE_COMPARISON)
    assert answer.status_code == 200
    table = Comparison.model_validate(answer.json())
    assert len(table.rows) == 4
    assert all(row.figures for row in table.rows)


def test_a_row_can_be_asked_again(client: TestClient) -> None:
    """The question of a row is one that POST /plan takes, with the same id."""
    row = client.post("/compare", json=EXAMPLE_COMPARISON).json()["rows"][2]
    assert client.post("/plan", json=row["request"]).json()["id"] == row["figures"]["id"]


def test_a_comparison_as_csv(client: TestClient) -> None:
    """format=csv gives the same rows for a spreadsheet."""
    answer = client.post("/compare?format=csv", json=EXAMPLE_COMPARISON)
    assert answer.headers["content-type"].startswith("text/csv")
    assert len(list(csv.DictReader(io.StringIO(answer.text)))) == 4


def test_a_misspelt_part_is_refused(client: TestClient) -> None:
    """An unknown field is a problem that names it and the one that was meant."""
    answer = client.post("/compare", json={**EXAMPLE_COMPARISON, "rig": ["rtx-3090"]})
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert "/rig is not a field here; did you mean" in answer.json()["detail"]


def test_a_combination_that_is_no_question_is_a_problem(client: TestClient) -> None:
    """A model and a quant that are names, each, and too long together are refused."""
    answer = client.post("/compare", json={"base": {"model": "qwen3-32b"}, "quants": ["Q" * 395]})
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert answer.json()["errors"][0]["pointer"] == "/model"


def test_an_unknown_engine_is_a_problem(client: TestClient) -> None:
    """An engine that there is not is refused as a whole, with those that there are."""
    answer = client.post("/compare", json={**EXAMPLE_COMPARISON, "engines": [{"name": "vlm"}]})
    assert answer.status_code == 404
    assert answer.json()["suggestions"] == ["vllm"]
    assert answer.json()["errors"][0]["pointer"] == "/engines/0/name"
