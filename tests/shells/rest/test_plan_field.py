"""GET /plan?field=…: one bare value for a cell of a spreadsheet."""

import csv
import io

import pytest
from starlette.testclient import TestClient

from service.contract.plan import Plan
from service.planning.row import row_of_plan

PARAMETERS = {"model": "llama-3.3-70b:Q4_K_M", "gpus": "2x rtx-3090", "context_tokens": "16384"}


def test_a_field_is_the_bare_value_of_the_row(client: TestClient) -> None:
    """Each column of the CSV is what the same field gives, as plain text."""
    plan = Plan.model_validate(client.get("/plan", params=PARAMETERS).json())
    row = row_of_plan(plan)
    for field in ("decode_tokens_per_s", "busiest_device_bytes", "verdict", "command"):
        answer = client.get("/plan", params=PARAMETERS | {"field": field})
        assert answer.headers["content-type"].startswith("text/plain")
        assert answer.text == str(row[field])
    assert client.get("/plan", params=PARAMETERS | {"field": "fits"}).text == "true"
    assert client.get("/plan", params=PARAMETERS | {"field": "tensor_parallel_size"}).text == ""


def test_a_field_may_be_a_path_into_the_plan(client: TestClient) -> None:
    """Names and positions joined by points lead to any single value of the JSON."""
    plan = client.get("/plan", params=PARAMETERS).json()
    device = client.get("/plan", params=PARAMETERS | {"field": "devices.1.total_bytes"})
    assert int(device.text) == plan["devices"][1]["total_bytes"]
    high = client.get("/plan", params=PARAMETERS | {"field": "speed.prefill_tokens_per_s.high"})
    assert float(high.text) == plan["speed"]["prefill_tokens_per_s"]["high"]


@pytest.mark.parametrize(
    ("field", "suggested"),
    [
        ("decode_token_per_s", "decode_tokens_per_s"),
        ("devices.0", "devices.0.total_bytes"),
        ("devices.7.total_bytes", "devices.0.total_bytes"),
        ("", None),
    ],
)
def test_an_unknown_field_is_a_problem_that_names_close_ones(
    client: TestClient, field: str, suggested: str | None
) -> None:
    """What names no single value is refused with those that it could have meant."""
    answer = client.get("/plan", params=PARAMETERS | {"field": field})
    assert answer.status_code == 422
    problem = answer.json()
    assert problem["errors"][0]["pointer"] == "/field"
    assert suggested is None or suggested in problem["detail"] or suggested in problem["suggestions"]


def test_a_problem_can_be_read_in_a_cell(client: TestClient) -> None:
    """With problems=text a spreadsheet, which shows no body of a refusal, gets a sentence; else the status says it."""
    asked = PARAMETERS | {"gpus": "rtx-3091", "field": "verdict"}
    refused = client.get("/plan", params=asked)
    assert refused.status_code == 404
    shown = client.get("/plan", params=asked | {"problems": "text"})
    assert shown.status_code == 200
    assert shown.text.startswith("#Unknown GPU: ")
    assert shown.text.endswith(refused.json()["detail"])
    unknown = client.get("/plan", params=PARAMETERS | {"field": "speed", "problems": "text"})
    assert unknown.text.startswith("#Invalid request: /field")


def test_cards_may_be_joined_as_people_write_them(client: TestClient) -> None:
    """A plus between cards is as good as a comma."""
    plus, comma = (
        client.get("/plan", params=PARAMETERS | {"gpus": gpus, "format": "csv"}).text
        for gpus in ("2x rtx-3090 + rtx-4090", "2x rtx-3090, rtx-4090")
    )
    assert plus == comma
    (row,) = csv.DictReader(io.StringIO(plus))
    assert row["gpus"] == "rtx-3090, rtx-3090, rtx-4090"
