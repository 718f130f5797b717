"""What operators see of requests: ids, counters and lines of the log."""

import json
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send

from service.app import create_app
from service.settings import Settings
from service.shells.serving.access_log import AccessLog
from service.shells.serving.metrics import Metrics
from service.shells.serving.observed import Observed
from service.shells.serving.tracing import Untraced
from tests.databases import Databases, migrate_and_seed
from tests.faults.test_database_away import eventually
from tests.servers import running, wait_until_ready

QUESTION = {"model": "llama-3.1-8b:Q4_K_M", "rig": {"gpus": ["rtx-3090"]}}
MOST_S_PER_REQUEST = 20e-6


@pytest.fixture
def client(sqlite: Databases) -> Iterator[TestClient]:
    """A client of an application whose counters are at zero."""
    settings = Settings(database_url=sqlite.copy_of("seeded", migrate_and_seed))
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        yield client


def series(text: str) -> dict[tuple[str, ...], float]:
    """Values by name and labels."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.parametrize("given", ["5f2b1c7e-0d7a-4c8e-9d3b-6a1f4e2c8b70", "Root=1-67891233-abcdef012345678912345678"])
def test_a_request_keeps_the_id_it_came_with(client: TestClient, given: str) -> None:
    """The answer bears the id that a caller or a proxy gave, and so does a problem's body."""
    refused = client.post("/plan", json={}, headers={"X-Request-ID": given})
    assert refused.headers["x-request-id"] == refused.json()["request_id"] == given


@pytest.mark.parametrize("given", [None, "", "x" * 129, "two words", 'quote"', "ümlaut".encode("latin-1")])
def test_a_request_without_a_sensible_id_gets_one(client: TestClient, given: str | bytes | None) -> None:
    """What is missing, or could be something else than an id in a log, is replaced by one nobody had."""
    headers = [] if given is None else [(b"X-Request-ID", given if isinstance(given, bytes) else given.encode())]
    ids = [client.get("/healthz", headers=headers).headers["x-request-id"] for _ in range(2)]
    assert all(re.fullmatch("[0-9a-f]{32}", one) for one in ids)
    assert len(set(ids)) == 2


def test_a_failure_has_an_id_and_is_counted(client: TestClient) -> None:
    """A request that fails inside is answered, counted and found in the log by its id like any other."""
    app: Any = client.app
    app.state.database = None
    failed = client.get("/plans/pln_none")
    assert failed.status_code == 500
    assert failed.headers["x-request-id"] == failed.json()["request_id"]
    counted = series(app.state.metrics.text(tuple).decode())
    assert counted["rigfit_http_requests_total", "GET", "/plans/{plan_id}", "500"] == 1
    assert counted["rigfit_problems_total", "internal-error"] == 1


def test_requests_plans_and_problems_are_counted(client: TestClient) -> None:
    """By address template, method and status; plans by engine, computed or given again; refusals by kind."""
    for question in (QUESTION, QUESTION, QUESTION | {"engine": {"name": "vllm"}, "model": "llama-3.1-8b:BF16"}):
        assert client.post("/plan", json=question).status_code == 200
    client.get("/plans/pln_none")
    client.post("/plan", json=QUESTION | {"rig": {"gpus": ["A100"]}})
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    counted = series(answer.text)
    assert counted["rigfit_http_requests_total", "POST", "/plan", "200"] == 3
    assert counted["rigfit_http_requests_total", "GET", "/plans/{plan_id}", "404"] == 1
    assert counted["rigfit_http_request_duration_seconds_count", "POST", "/plan"] == 4
    assert counted["rigfit_plan_duration_seconds_count", "llama.cpp"] == 2
    assert counted["rigfit_plan_duration_seconds_count", "vllm"] == 1
    assert counted["rigfit_kept_answers_total", "llama.cpp"] == 1
    assert counted["rigfit_problems_total", "unknown-gpu"] == 1
    assert counted["rigfit_problems_total", "not-found"] == 1
    assert counted[("rigfit_database_away",)] == 0
    assert counted[("process_resident_memory_bytes",)] > 0


def test_the_queue_of_batches_is_told(postgresql: Databases) -> None:
    """What waits for workers is a figure, before and after something is sent."""
    settings = Settings(database_url=postgresql.copy_of("seeded", migrate_and_seed))
    with TestClient(create_app(settings)) as client:
        assert series(client.get("/metrics").text)["rigfit_batches", "queued"] == 0
        rows = b"model,gpus\nllama-3.1-8b,rtx-3090\n"
        sent = client.post("/plan/batch?queue=true", content=rows, headers={"content-type": "text/csv"})
        assert sent.status_code == 202
        counted = series(client.get("/metrics").text)
        assert (counted["rigfit_batches", "queued"], counted["rigfit_batches", "running"]) == (1, 0)
        assert counted[("rigfit_batch_rows_waiting",)] == 0  # nobody has read the rows yet


def test_addresses_and_names_make_no_series(client: TestClient) -> None:
    """Whatever callers ask for, the number of series stays."""

    def ask(number: int) -> None:
        for path in (
            f"/plans/pln_{number}",
            f"/gpus/card-{number}",
            f"/{number}",
            f"/static/{number}",
            f"/models/a/{number}",
        ):
            client.get(path, headers={"X-Request-ID": str(number)})

    ask(0)
    before = len(series(client.get("/metrics").text))
    for number in range(1, 20):
        ask(number)
    client.get("/metrics")
    assert len(series(client.get("/metrics").text)) - before <= 20  # those of /metrics itself


def test_metrics_can_be_turned_off(sqlite: Databases) -> None:
    """Then nothing is at the address."""
    settings = Settings(database_url=sqlite.copy_of("seeded", migrate_and_seed), metrics=False)
    with TestClient(create_app(settings)) as client:
        assert client.get("/metrics").status_code == 404


def test_several_workers_count_together(sqlite: Databases) -> None:
    """Whichever worker is asked tells of all, and one that was killed takes nothing away."""
    url = sqlite.copy_of("seeded", migrate_and_seed)
    with running(RIGFIT_DATABASE_URL=url, RIGFIT_WORKERS="2") as service:
        wait_until_ready(service.process, f"{service.address}/readyz")

        def counted() -> float:
            return series(httpx2.get(f"{service.address}/metrics", timeout=20).text)[
                "rigfit_http_requests_total", "GET", "/healthz", "200"
            ]

        for _ in range(40):
            httpx2.get(f"{service.address}/healthz", timeout=20)
        assert {counted() for _ in range(10)} == {40}
        first = service.process.pid
        workers = list(map(int, Path(f"/proc/{first}/task/{first}/children").read_text("utf-8").split()))
        folders = {Path(name).parent for worker in workers for name in mapped(worker)}
        os.kill(max(workers), signal.SIGKILL)
        assert eventually(lambda: counted() == 40)
        (folder,) = folders
        assert folder.is_dir()
    assert not folder.exists()


def mapped(process: int) -> list[str]:
    """Files that a process counts in."""
    return re.findall(r"/\S+/rigfit-metrics-\S+\.db", Path(f"/proc/{process}/maps").read_text("utf-8"))


def test_observing_costs_microseconds() -> None:
    """Id, counters and a line of the log take less than 20 us of a request, of which it may have two hundred."""

    class Route:
        path = "/plan"

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001
        scope["route"] = Route
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def take(message: Message) -> None:
        pass

    async def take_nothing() -> Message:
        return {"type": "http.request"}

    observed = Observed(answer, Metrics(), AccessLog(as_json=True), Untraced())
    headers = [(b"host", b"rigfit"), (b"accept", b"*/*"), (b"content-type", b"application/json")]

    def timed_s(app: Any) -> float:
        scopes = [
            {"type": "http", "method": "POST", "path": "/plan", "raw_path": b"/plan", "headers": headers}
            for _ in range(2000)
        ]
        started_s = time.process_time()
        for scope in scopes:
            run(app(scope, take_nothing, take))
        return (time.process_time() - started_s) / len(scopes)

    best_s = min(timed_s(observed) for _ in range(5)) - min(timed_s(answer) for _ in range(5))
    assert best_s < MOST_S_PER_REQUEST


def run(work: Any) -> None:
    """Run what never waits to its end."""
    try:
        work.send(None)
    except StopIteration:
        return
    raise AssertionError("it waited")


SECRETS = {
    "database password": "sekret-of-the-database",
    "key": "rgf_00000000000000000000000000000000_sekretofakey",
    "host token": "hf_sekretofamodelhost",
    "signing secret": "sekret-of-slack",
    "bot token": "xoxb-sekret-of-a-bot",
    "query": "sekret-in-a-query",
    "cookie": "sekret-in-a-cookie",
}


def test_no_secret_is_logged(tmp_path: Path) -> None:
    """With everything refused and the database away, no token, key or password stands in the log; each line is JSON."""
    log = tmp_path / "log"
    settings = {
        "RIGFIT_DATABASE_URL": f"postgresql+psycopg://rigfit:{SECRETS['database password']}@127.0.0.1:9/rigfit",
        "RIGFIT_LOG_FORMAT": "json",
        "RIGFIT_LOG_LEVEL": "debug",
        "RIGFIT_SLACK_SIGNING_SECRET": SECRETS["signing secret"],
        "RIGFIT_SLACK_BOT_TOKEN": SECRETS["bot token"],
        "RIGFIT_SLACK_TEAM_ID": "T0",
    }
    with running(log, **settings) as service:
        wait_until_ready(service.process, f"{service.address}/healthz")
        headers = {
            "X-API-Key": SECRETS["key"],
            "Authorization": f"Bearer {SECRETS['host token']}",
            "Cookie": f"key={SECRETS['cookie']}",
            "X-Request-ID": "asked-by-the-test",
        }
        with httpx2.Client(base_url=service.address, headers=headers, timeout=20) as client:
            for answer in (
                client.post("/plan", json=QUESTION),
                client.post("/plans", json=QUESTION),
                client.get("/gpus", params={"token": SECRETS["query"]}),
                client.post("/models", json={"url": "https://example.com/x.gguf"}),
                client.post("/slack/commands", data={"token": SECRETS["query"]}),
                client.post("/sign-in", data={"key": SECRETS["key"]}),
                client.get("/readyz"),
            ):
                assert answer.headers["x-request-id"] == "asked-by-the-test"
    written = log.read_text("utf-8")
    events = [json.loads(line) for line in written.splitlines()]
    asked = [event for event in events if event.get("request_id") == "asked-by-the-test"]
    assert {event["path"] for event in asked if event["event"] == "request"} >= {"/plan", "/plans", "/models"}
    assert [line for line in written.splitlines() if any(secret in line for secret in SECRETS.values())] == []
