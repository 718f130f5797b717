"""POST /plan/batch?queue=true and what follows: GET /batches/{id}, its result and its end."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from functools import partial

import httpx2
import pytest
from sqlalchemy import func, update
from starlette.testclient import TestClient

from service.app import create_app
from service.planning.access.keys import make_key
from service.planning.batch.processes import BatchProcesses
from service.planning.batch.stored import stored_planner
from service.settings import Settings
from service.shells.rest.media import CSV, JSONL, XLSX
from service.store.batch_tables import BatchTable
from service.store.batches import forget_batches
from service.store.database import transaction
from tests.databases import Databases, migrate_and_seed, opened
from tests.shells.rest.test_batch import ROWS
from tests.shells.rest.test_problems import expect_problem
from tests.working import ended, jobs_of, working

LINES = b'{"model": "llama-3.2-1b"}\n\n{"model": "nothing"}\n'


@pytest.fixture(scope="module")
def queue_url(postgresql: Databases) -> str:
    """Address of a seeded PostgreSQL database."""
    return postgresql.copy_of("seeded", migrate_and_seed)


@pytest.fixture(scope="module")
def queue_client(queue_url: str) -> Iterator[TestClient]:
    """A client of the application on that database."""
    with TestClient(create_app(Settings(database_url=queue_url, model_hosts=(), max_batches=4))) as client:
        yield client


def test_a_batch_is_sent_followed_and_fetched(queue_client: TestClient, queue_url: str) -> None:
    """Its result is what the same upload is answered with at once."""
    accepted = queue_client.post("/plan/batch?queue=true", content=ROWS, headers={"content-type": CSV})
    assert accepted.status_code == 202
    address = accepted.headers["location"]
    assert accepted.json() == queue_client.get(address).json()
    assert accepted.json()["status"] == "queued"
    expect_problem(queue_client.get(f"{address}/result"), "unfinished")
    workbook = queue_client.post("/plan/batch?queue=true&format=xlsx", content=ROWS, headers={"content-type": CSV})
    plans = partial(stored_planner, Settings(database_url=queue_url, model_hosts=()))
    with (
        opened(queue_url) as database,
        closing(BatchProcesses(plans(), plans, 1)) as processes,
        working(database, processes),
    ):
        for sent in (accepted, workbook):
            ended(jobs_of(database), sent.json()["id"])
    finished = queue_client.get(address).json()
    assert (finished["status"], finished["rows"], finished["rows_refused"]) == ("finished", 4, 1)
    result = queue_client.get(finished["result"])
    assert result.headers["content-type"].startswith(CSV)
    at_once = queue_client.post("/plan/batch", content=ROWS, headers={"content-type": CSV})
    assert result.content == at_once.content
    assert queue_client.post(f"{address}/cancel").json() == finished
    other = queue_client.get(f"{workbook.headers['location']}/result")
    assert (other.headers["content-type"], other.content[:2]) == (XLSX, b"PK")


def test_a_batch_is_cancelled(queue_client: TestClient) -> None:
    """Before anyone began it, for good, and its place is free again."""
    sent = [queue_client.post("/plan/batch?queue=true", json=[]) for _ in range(4)]
    assert {answer.status_code for answer in sent} == {202}
    refused = queue_client.post("/plan/batch?queue=true", json=[])
    assert refused.headers["retry-after"]
    expect_problem(refused, "rate-limited")
    for answer in sent:
        cancelled = queue_client.post(f"{answer.headers['location']}/cancel").json()
        assert cancelled["status"] == "cancelled"
        assert cancelled["ended_at"] is not None
    assert "cancelled" in expect_problem(queue_client.get(f"{sent[0].headers['location']}/result"), "unfinished").detail


def sent(client: TestClient, content: str, key: str, query: str = "", **headers: str) -> httpx2.Response:
    """What a table is answered with that is sent under an Idempotency-Key."""
    named = {"content-type": CSV, "idempotency-key": key} | headers
    return client.post(f"/plan/batch?queue=true{query}", content=content, headers=named)


def test_what_is_sent_again_is_the_same_batch(queue_client: TestClient, queue_url: str) -> None:
    """Under one key of one caller; with other bytes or another form it is refused, of another caller it is another."""
    first = sent(queue_client, ROWS, "night-1")
    again = sent(queue_client, ROWS, "night-1")
    assert (again.status_code, again.headers["location"]) == (202, first.headers["location"])
    assert again.json() == first.json()
    for content, query in ((ROWS + "\r\n", ""), (ROWS, "&format=xlsx")):
        refused = expect_problem(sent(queue_client, content, "night-1", query), "idempotency-key-reused")
        assert first.json()["id"] in refused.detail
    with opened(queue_url) as database:
        key = make_key(database, "nightly", ["read"]).text
    others = [sent(queue_client, ROWS, "night-2"), sent(queue_client, ROWS, "night-1", **{"x-api-key": key})]
    assert len({first.headers["location"], *(other.headers["location"] for other in others)}) == 3
    for answer in (first, *others):
        queue_client.post(f"{answer.headers['location']}/cancel")
    # as long as it is kept, and no longer
    assert sent(queue_client, ROWS, "night-1").json()["status"] == "cancelled"
    with opened(queue_url) as database, transaction(database) as session:
        session.execute(update(BatchTable).values(ended_at=func.now() - timedelta(days=2)))
        assert forget_batches(session, timedelta(days=1)) >= 3
    anew = sent(queue_client, ROWS, "night-1")
    assert anew.json()["status"] == "queued"
    assert anew.headers["location"] != first.headers["location"]
    queue_client.post(f"{anew.headers['location']}/cancel")


@pytest.mark.parametrize("key", ["", "two words", "k" * 256, "caf\xe9"])
def test_what_is_no_idempotency_key(queue_client: TestClient, key: str) -> None:
    """A key that two programs could read differently is refused."""
    named = {b"content-type": CSV.encode(), b"idempotency-key": key.encode("latin-1")}
    answer = queue_client.post("/plan/batch?queue=true", content=ROWS, headers=named)
    assert "idempotency-key" in expect_problem(answer, "invalid-request").detail.lower()


def test_what_is_no_batch_is_not_found(queue_client: TestClient) -> None:
    """An unknown name is a problem at every address."""
    for path, method in (("", "GET"), ("/result", "GET"), ("/cancel", "POST")):
        expect_problem(queue_client.request(method, f"/batches/bat_none{path}"), "not-found")


def test_what_cannot_wait_is_refused(client: TestClient, queue_client: TestClient) -> None:
    """A database without a queue, a media type that is not read, and a form that lists have not."""
    table = client.post("/plan/batch?queue=true", content=ROWS, headers={"content-type": CSV})
    assert "PostgreSQL" in expect_problem(table, "unsupported").detail
    page = queue_client.post("/plan/batch?queue=true", content=b"x", headers={"content-type": "text/html"})
    expect_problem(page, "unsupported-media")
    expect_problem(queue_client.post("/plan/batch?queue=true&format=csv", json=[]), "invalid-request")


def test_lines_are_answered_as_lines(client: TestClient) -> None:
    """JSON Lines at once: a line for each that is not blank."""
    answer = client.post("/plan/batch", content=LINES, headers={"content-type": "application/x-ndjson"})
    assert answer.headers["content-type"] == JSONL
    first, second = answer.text.splitlines()
    assert first.startswith('{"plan":')
    assert "/plan/batch#/1" in second
    broken = client.post("/plan/batch", content=b"\xff", headers={"content-type": JSONL})
    assert "UTF-8" in expect_problem(broken, "invalid-request").detail
