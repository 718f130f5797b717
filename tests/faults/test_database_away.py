"""A PostgreSQL that is killed, was never there, or stands still: plans go on, and no kept plan is lost."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from typing import Any

import httpx2
import pytest

from service.planning.access.shared_rates import EXCHANGE_S
from tests.faults.conftest import KillablePostgres
from tests.servers import RunningService, running, wait_until_ready
from tests.shells.rest.test_problems import expect_problem

WRITERS = 60
MODEL = "llama-3.1-8b:Q4_K_M"
# what plans besides POST /plan, with its body
OTHER_QUESTIONS: tuple[tuple[str, str, Any], ...] = (
    ("GET", f"/plan?model={MODEL}&gpus=rtx-3090&context_tokens=4096", None),
    ("GET", f"/answer?model={MODEL}&gpus=rtx-3090&context_tokens=4096", None),
    ("POST", "/plan/curves", {"model": MODEL, "rig": {"gpus": ["rtx-3090"]}, "workload": {"context_tokens": 4096}}),
    ("POST", "/compare", {"models": [MODEL], "rigs": ["rtx-3090", "rtx-4090"], "contexts": [4096]}),
)
# a question that nobody has asked yet is computed; one that was asked before would be answered from memory
contexts = count(4096, 256)


def question(gpu: str = "rtx-3090") -> dict[str, Any]:
    """A question that was not asked before."""
    return {"model": MODEL, "rig": {"gpus": [gpu]}, "workload": {"context_tokens": next(contexts)}}


@pytest.fixture
def service(postgres: KillablePostgres) -> Iterator[RunningService]:
    """A service on the server that may be killed, which has answered."""
    with running(RIGFIT_DATABASE_URL=postgres.url) as service:
        wait_until_ready(service.process, f"{service.address}/readyz")
        yield service


def client_of(service: RunningService) -> httpx2.Client:
    return httpx2.Client(base_url=service.address, timeout=60)


def eventually(answered: Callable[[], bool], within_s: float = 60) -> bool:
    """Whether something comes true in time."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if answered():
            return True
        time.sleep(0.1)
    return answered()


def expect_degraded(client: httpx2.Client) -> None:
    """Check what a service without its database does: it plans, refuses to write and says when to come back."""
    plan = client.post("/plan", json=question())
    assert plan.status_code == 200, plan.text
    refused = client.post("/plans", json=question())
    assert "nothing was kept" in expect_problem(refused, "not-ready").detail
    assert int(refused.headers["retry-after"]) > 0
    # until the catalogue is looked at again it counts as known
    assert eventually(lambda: client.post("/plan", json=question("lab-card")).status_code == 503)
    assert "lab-card" in expect_problem(client.post("/plan", json=question("lab-card")), "not-ready").detail
    ready = expect_problem(client.get("/readyz"), "not-ready")
    assert "database: The database does not answer." in ready.detail
    states = client.get("/readyz", params={"exclude": "database"}).json()["checks"]
    assert (states["catalogue"], states["database"] == "ok") == ("ok", False)


def test_a_service_without_its_database_starts_and_plans(postgres: KillablePostgres) -> None:
    """Started while the database is down it plans with built-in data, says so, and takes the database when it comes."""
    postgres.kill()
    try:
        with running(RIGFIT_DATABASE_URL=postgres.url) as service, client_of(service) as client:
            wait_until_ready(service.process, f"{service.address}/healthz")
            expect_degraded(client)
            assert "database-away" in codes(client.post("/plan", json=question()))
            postgres.start()
            assert eventually(lambda: client.post("/plans", json=question()).status_code == 201)
            assert eventually(lambda: "database-away" not in codes(client.post("/plan", json=question())))
            assert client.get("/readyz").status_code == 200
    finally:
        postgres.start()


def codes(answer: httpx2.Response) -> list[str]:
    return [warning["code"] for warning in answer.json()["warnings"]]


def test_a_database_that_is_killed_loses_nothing(postgres: KillablePostgres, service: RunningService) -> None:
    """Killed while plans are being kept: every one that was answered 201 is there afterwards, the others are 503."""
    kept: list[str] = []
    others: list[int] = []
    stop = threading.Event()

    def keep() -> None:
        with client_of(service) as client:
            while not stop.is_set():
                answer = client.post("/plans", json=question())
                if answer.status_code == 201:
                    kept.append(answer.headers["location"])
                else:
                    others.append(answer.status_code)
                    time.sleep(0.2)

    writers = [threading.Thread(target=keep) for _ in range(3)]
    for writer in writers:
        writer.start()
    try:
        assert eventually(lambda: len(kept) > 5)
        postgres.kill()
        before = len(kept)
        with client_of(service) as client:
            expect_degraded(client)
        postgres.start()
        assert eventually(lambda: len(kept) > before + 5)
    finally:
        stop.set()
        for writer in writers:
            writer.join()
        postgres.start()
    assert set(others) == {503}
    with client_of(service) as client:
        assert [address for address in kept if client.get(address).status_code != 200] == []
        assert client.get("/readyz").status_code == 200


def timed_plan_s(client: httpx2.Client) -> float:
    """How long a plan takes that was not asked for before, with a pause behind it."""
    started_s = time.monotonic()
    assert client.post("/plan", json=question()).status_code == 200
    ended_s = time.monotonic()
    time.sleep(0.2)
    return ended_s - started_s


def test_a_database_that_stands_still_holds_up_no_plan(postgres: KillablePostgres, service: RunningService) -> None:
    """Connections stand and nothing answers: plans are answered all the same, writes are kept later or refused."""
    written: list[int] = []

    def write() -> None:
        with client_of(service) as client:
            written.append(client.post("/plans", json=question()).status_code)

    with client_of(service) as client:
        assert client.post("/plan", json=question()).status_code == 200
        go_on = postgres.freeze()
        try:
            # more than there are threads for requests that wait
            writers = [threading.Thread(target=write) for _ in range(WRITERS)]
            for writer in writers:
                writer.start()
            # the writers' plans are computed before they wait, which says how busy the machine is
            timed_plan_s(client)
            # beyond the time after which the catalogue is looked at again
            slowest_s = max(timed_plan_s(client) for _ in range(20))
            started_s = time.monotonic()
            assert {client.request(*asked[:2], json=asked[2]).status_code for asked in OTHER_QUESTIONS} == {200}
            assert client.get("/readyz", params={"exclude": "database"}).status_code == 200
            assert max(slowest_s, time.monotonic() - started_s) < 3
            assert 201 not in written
        finally:
            go_on()
        for writer in writers:
            writer.join()
        # who had a connection waited and is kept, who needed a new one was told after three seconds
        assert len(written) == WRITERS
        assert set(written) <= {201, 503}
        assert eventually(lambda: client.post("/plans", json=question()).status_code == 201)
        assert client.get("/readyz").status_code == 200


def test_rates_hold_without_the_database(postgres: KillablePostgres) -> None:
    """Two services count together, each alone while the database is away, and together again when it is back."""
    shared = {
        "RIGFIT_DATABASE_URL": postgres.url,
        "RIGFIT_RATE_LIMIT_PER_ADDRESS": "10/hour",
        "RIGFIT_TRUSTED_PROXIES": "127.0.0.1",
    }

    def asked(client: httpx2.Client, address: str) -> httpx2.Response:
        started_s = time.monotonic()
        answer = client.post("/plan", json=question(), headers={"x-forwarded-for": address})
        assert time.monotonic() - started_s < 3
        return answer

    def left(client: httpx2.Client, address: str) -> int:
        return int(asked(client, address).headers["ratelimit"].split(";")[1].removeprefix("r="))

    with ExitStack() as ending:
        services = [ending.enter_context(running(**shared)) for _ in range(2)]
        ending.callback(postgres.start)
        one, other = (ending.enter_context(client_of(service)) for service in services)
        for service in services:
            wait_until_ready(service.process, f"{service.address}/readyz")
        assert [left(one, "10.0.0.1") for _ in range(6)] == [9, 8, 7, 6, 5, 4]
        time.sleep(2 * EXCHANGE_S + 2)
        assert left(other, "10.0.0.1") == 3
        postgres.kill()
        assert [asked(one, "10.0.0.2").status_code for _ in range(11)] == [200] * 10 + [429]
        assert [asked(other, "10.0.0.2").status_code for _ in range(11)] == [200] * 10 + [429]
        assert [asked(other, "10.0.0.1").status_code for _ in range(4)] == [200] * 3 + [429]
        postgres.start()
        assert eventually(lambda: one.get("/readyz").status_code == 200)
        for address in map("10.0.1.{}".format, range(5)):
            left(one, address)
            time.sleep(2 * EXCHANGE_S + 0.5)
            if left(other, address) == 8:
                break
        else:
            pytest.fail("the processes do not count together again")
