"""POST /measurements, GET /measurements, GET /calibration and curves over HTTP."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from service.planning.access.keys import make_key
from service.settings import Settings
from tests.databases import Databases, migrate_and_seed, opened
from tests.measurements.printed import as_csv, as_json, as_jsonl, as_markdown, as_sql, row
from tests.shells.rest.local_client import local_client
from tests.shells.rest.test_plan import QUESTION
from tests.shells.rest.test_problems import expect_problem

BODIES = {
    "application/json": as_json([row()]),
    "application/x-ndjson": as_jsonl([row()]),
    "text/csv": as_csv([row()]),
    "text/plain": as_sql([row()]),
    "text/markdown; charset=utf-8": as_markdown([row()], "ngl"),
}


@pytest.fixture
def measured(sqlite: Databases) -> Iterator[TestClient]:
    """A client of an application on a fresh seeded database."""
    settings = Settings(database_url=sqlite.copy_of("seeded", migrate_and_seed), max_request_bytes=200_000)
    with local_client(settings) as client:
        yield client


@pytest.mark.parametrize("media_type", BODIES)
def test_output_is_sent_as_it_was_printed(media_type: str, measured: TestClient) -> None:
    """Whatever a program printed is a body; what it does not say stands in the address."""
    answer = measured.post(
        "/measurements?gpu=rtx-3090&source=lab", content=BODIES[media_type], headers={"content-type": media_type}
    )
    assert answer.status_code == 201
    (one,) = answer.json()["measurements"]
    assert (one["status"], one["rig"], one["source"]) == ("accepted", "rtx-3090", "lab")


def test_output_is_uploaded_as_files(measured: TestClient) -> None:
    """A form takes several files and the same hints as fields."""
    files = [("file", ("a.md", as_markdown([row()]))), ("file", ("b.csv", as_csv([row(n_gen=256)])))]
    answer = measured.post("/measurements", files=files, data={"gpu": "rtx-3090", "model": "llama-3.1-8b"})
    assert answer.status_code == 201
    assert answer.json()["accepted"] == 2
    assert sorted(answer.json()["formats"]) == ["llama-bench csv", "llama-bench md"]


def test_the_same_output_again_is_no_creation(measured: TestClient) -> None:
    """What is known is answered with 200."""
    statuses = [measured.post("/measurements", json=json.loads(as_json([row()]))).status_code for _ in range(2)]
    assert statuses == [201, 200]


def test_measurements_are_listed_with_their_reasons(measured: TestClient) -> None:
    """Accepted and quarantined ones are both there, the reason beside them."""
    measured.post("/measurements", json=json.loads(as_json([row(), row(avg_ts=900.0)])))
    listed = measured.get("/measurements", params={"status": "quarantined"}).json()
    assert listed["count"] == 1
    assert listed["measurements"][0]["code"] == "beyond-bandwidth"
    assert measured.get("/measurements", params={"gpu": "3090", "limit": 1}).json()["count"] == 2
    expect_problem(measured.get("/measurements", params={"card": "x"}), "invalid-request")


def test_the_next_plan_follows(measured: TestClient) -> None:
    """A plan after a measurement is another one, and calibration says what moved it."""
    question = QUESTION | {"model": "llama-3.1-8b:Q4_K_M", "rig": {"gpus": ["rtx-3090"]}}
    before = measured.post("/plan", json=question).json()
    assert measured.get("/calibration").json()["groups"] == []
    measured.post("/measurements", json=json.loads(as_json([row(avg_ts=120.0)])))
    after = measured.post("/plan", json=question).json()
    assert after["id"] != before["id"]
    assert after["speed"]["decode_tokens_per_s"]["mid"] < before["speed"]["decode_tokens_per_s"]["mid"]
    (group,) = measured.get("/calibration").json()["groups"]
    assert {shift["what"] for shift in group["shifts"] if shift["level"] == "card"} == {"rtx-3090"}


def test_a_measurement_is_withdrawn(measured: TestClient) -> None:
    """With a reason; the next plan is what it was before, and the trail says who did it."""
    question = QUESTION | {"model": "llama-3.1-8b:Q4_K_M", "rig": {"gpus": ["rtx-3090"]}}
    before = measured.post("/plan", json=question).json()
    (one,) = measured.post("/measurements", json=json.loads(as_json([row(avg_ts=120.0)]))).json()["measurements"]
    assert measured.post("/plan", json=question).json()["speed"] != before["speed"]
    address, why = f"/measurements/{one['id']}/withdraw", {"reason": "The card was throttling."}
    for body in ({}, {"reason": ""}, {"reason": "x", "by": "me"}):
        expect_problem(measured.post(address, json=body), "invalid-request")
    expect_problem(measured.post("/measurements/mea_none/withdraw", json=why), "not-found")
    gone = measured.post(address, json=why)
    assert (gone.status_code, gone.json()["code"]) == (200, "withdrawn")
    assert measured.post("/plan", json=question).json()["speed"] == before["speed"]
    (change, _) = measured.get(f"/audit?kind=measurement&entity={one['id']}").json()["changes"]
    assert (change["actor"], change["action"], change["after"]["code"]) == ("anonymous", "update", "withdrawn")


def test_withdrawing_needs_the_scope_of_measurements(sqlite: Databases) -> None:
    """Whoever may bring measurements in may withdraw them, and nobody else."""
    url = sqlite.copy_of("seeded", migrate_and_seed)
    with opened(url) as database:
        keys = {scope: make_key(database, scope, [scope]).text for scope in ("measurements", "models")}
    with local_client(Settings(database_url=url)) as client:

        def answer(headers: dict[str, str]) -> Any:
            return client.post("/measurements/mea_none/withdraw", json={"reason": "wrong"}, headers=headers)

        expect_problem(answer({}), "unauthorized")
        expect_problem(answer({"x-api-key": keys["models"]}), "forbidden")
        expect_problem(answer({"x-api-key": keys["measurements"]}), "not-found")


def test_bodies_that_are_not_read(measured: TestClient) -> None:
    """Images, empty text, wrong forms, unknown hints and long bodies are refused with the reason."""
    png = {"content-type": "image/png"}
    expect_problem(measured.post("/measurements", content=b"x", headers=png), "unsupported-media")
    text = {"content-type": "text/plain"}
    expect_problem(measured.post("/measurements", content=b"hello", headers=text), "invalid-request")
    body = as_csv([row()])
    expect_problem(measured.post("/measurements?gpus=x", content=body, headers=text), "invalid-request")
    expect_problem(measured.post("/measurements?gpu=x-9", content=as_markdown([row()]), headers=text), "unknown-gpu")
    expect_problem(measured.post("/measurements?model=x-9", content=body, headers=text), "unknown-model")
    expect_problem(measured.post("/measurements", content=b" " * 300_000, headers=text), "too-large")
    expect_problem(measured.post("/measurements", files={"other": ("a", "b")}), "invalid-request")
    expect_problem(measured.post("/measurements", files={"model": ("a", "b")}), "invalid-request")


def test_curves_of_a_question_and_of_a_kept_plan(measured: TestClient) -> None:
    """Both are drawn through the same plan."""
    kept = measured.post("/plans", json=QUESTION)
    curves = measured.get(f"{kept.headers['location']}/curves")
    assert curves.status_code == 200
    assert curves.json() == measured.post("/plan/curves", json=QUESTION).json()
    assert curves.json()["plan_id"] == kept.json()["id"]
    expect_problem(measured.get("/plans/pln_0/curves"), "not-found")
    expect_problem(measured.post("/plan/curves", json=QUESTION | {"model": "nothing"}), "unknown-model")
