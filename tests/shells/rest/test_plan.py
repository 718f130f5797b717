"""POST /plan, GET /plan and POST /plan/batch."""

import csv
import io
from typing import Any

import pytest
from starlette.testclient import TestClient

from service.contract.plan import Plan

QUESTION: dict[str, Any] = {
    "model": "llama-3.3-70b:Q4_K_M",
    "rig": {"gpus": ["2x rtx-3090"]},
    "workload": {"context_tokens": 16384},
}
CONTRACT_KEYS = {
    "id", "model", "engine", "fits", "verdict", "devices", "host", "max_context_tokens", "shortfall_bytes", "speed",
    "command", "power", "warnings", "advice", "alternatives", "explanation",
}  # fmt: skip


def test_a_plan_has_every_field_of_the_contract(client: TestClient) -> None:
    """The answer to a plain question has all that other programs rely on."""
    answer = client.post("/plan", json=QUESTION)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert set(answer.json()) >= CONTRACT_KEYS
    assert Plan.model_validate(answer.json()).verdict == "fits"


def test_what_does_not_fit_is_an_answer(client: TestClient) -> None:
    """A plan that does not fit is no error."""
    question = QUESTION | {"workload": {"context_tokens": 131072}, "engine": {"n_gpu_layers": "all"}}
    answer = client.post("/plan", json=question)
    assert answer.status_code == 200
    assert answer.json()["fits"] is False


def test_a_draft_is_part_of_the_answer(client: TestClient) -> None:
    """A draft by name in JSON and in a query is the same question, and its bytes are in the answer."""
    engine = {"draft": "llama-3.2-1b:Q8_0"}
    posted = client.post("/plan", json=QUESTION | {"engine": engine}).json()
    got = client.get(
        "/plan",
        params={"model": QUESTION["model"], "gpus": "2x rtx-3090", "context_tokens": 16384, **engine},
    ).json()
    assert posted == got
    assert posted["companions"][0]["devices"][0]["total_bytes"] == posted["devices"][0]["companion_bytes"] > 0


def test_a_draft_file_is_for_the_command_line(client: TestClient) -> None:
    """A path in a draft reads no file of the server either, and the problem names that field."""
    engine = {"draft": {"model": {"path": "/etc/passwd"}}}
    answer = client.post("/plan", json=QUESTION | {"engine": engine})
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/engine/draft/model"]


def test_whole_numbers_may_be_written_with_a_point(client: TestClient) -> None:
    """4096.0 is 4096 in JSON."""
    whole, point = (
        client.post("/plan", json=QUESTION | {"workload": {"context_tokens": tokens}}).json()
        for tokens in (4096, 4096.0)
    )
    assert whole == point


@pytest.mark.parametrize(
    "stated",
    [
        {"assumptions": {"bandwidth_fraction": 5e-324}},
        {"rig": {"gpus": [{"gpu": "rtx-3090", "power_limit_w": 5e-324}]}},
        {"engine": {"name": "vllm", "gpu_memory_utilization": 5e-324}},
    ],
)
def test_what_is_too_small_to_divide_by_is_refused(client: TestClient, stated: dict[str, Any]) -> None:
    """A positive number may be smaller than anything that a machine has."""
    answer = client.post("/plan", json=QUESTION | stated)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")


def test_a_plan_writes_nothing(client: TestClient) -> None:
    """A plan that was only asked for is not kept."""
    plan_id = client.post("/plan", json=QUESTION).json()["id"]
    assert client.get(f"/plans/{plan_id}").status_code == 404


def test_a_rig_may_be_left_out(client: TestClient) -> None:
    """Without a rig the host alone is planned."""
    answer = client.post("/plan", json={"model": "llama-3.2-1b:Q4_K_M"})
    assert answer.status_code == 200
    assert answer.json()["devices"] == []


def test_query_parameters_ask_the_same_question(client: TestClient) -> None:
    """What a query states gives the plan that the same fields give as JSON."""
    query = "model=llama-3.3-70b:Q4_K_M&gpus=2x+rtx-3090&context_tokens=16384&parallel=2"
    query += "&n_gpu_layers=all&tensor_split=1,2"
    body = QUESTION | {
        "workload": {"context_tokens": 16384, "parallel": 2},
        "engine": {"n_gpu_layers": "all", "tensor_split": [1, 2]},
    }
    assert client.get(f"/plan?{query}").json() == client.post("/plan", json=body).json()


def test_cards_of_a_query_are_repeated_or_separated(client: TestClient) -> None:
    """Several cards may be one parameter with commas or several parameters."""
    commas = client.get("/plan?model=llama-3.3-70b:Q4_K_M&gpus=rtx-3090,rtx-5090")
    repeated = client.get("/plan?model=llama-3.3-70b:Q4_K_M&gpus=rtx-3090&gpus=rtx-5090")
    assert commas.status_code == 200
    assert commas.json()["id"] == repeated.json()["id"]


def test_a_row_for_spreadsheets(client: TestClient) -> None:
    """As CSV a plan is a header and one row with the figures of the JSON answer."""
    answer = client.get("/plan?model=llama-3.3-70b:Q4_K_M&gpus=2x+rtx-3090&context_tokens=16384&format=csv")
    (row,) = csv.DictReader(io.StringIO(answer.text))
    plan = client.post("/plan", json=QUESTION).json()
    assert answer.headers["content-type"].startswith("text/csv")
    assert row["id"] == plan["id"]
    assert float(row["decode_tokens_per_s"]) == plan["speed"]["decode_tokens_per_s"]["mid"]
    assert row["command"] == plan["command"]["text"]


def test_a_batch_answers_each_request_in_order(client: TestClient) -> None:
    """A list gives a list: a plan or a problem for each, the good ones unharmed by the bad."""
    answer = client.post("/plan/batch", json=[QUESTION, {"model": "nothing"}, 3, QUESTION])
    lines = answer.json()
    assert answer.status_code == 200
    assert [set(line) for line in lines] == [{"plan"}, {"problem"}, {"problem"}, {"plan"}]
    assert lines[0] == lines[3]
    assert lines[1]["problem"]["type"] == "/problems/unknown-model"
    assert lines[1]["problem"]["instance"] == "/plan/batch#/1"


@pytest.mark.parametrize("path", ["/slack/events", "/slack/commands"])
def test_what_is_not_served_yet_is_not_found(client: TestClient, path: str) -> None:
    """Addresses of later releases do not pretend to be there."""
    assert client.post(path, json={}).status_code == 404
