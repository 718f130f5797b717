"""429 over HTTP: who is counted, what is told, and whom no header deceives."""

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import cycle

import httpx2
import pytest
from sqlalchemy import select
from starlette.testclient import TestClient

from service.app import create_app
from service.planning.access.key_text import new_key
from service.planning.access.keys import make_key
from service.planning.access.shared_rates import EXCHANGE_S
from service.settings import Settings
from service.store.tables import RateUseTable
from tests.databases import Databases, migrate_and_seed, opened
from tests.servers import running, wait_until_ready
from tests.shells.rest.test_problems import expect_problem


@pytest.fixture(scope="module")
def url(sqlite: Databases) -> str:
    """Address of a seeded database."""
    return sqlite.copy_of("seeded", migrate_and_seed)


@contextmanager
def client_of(url: str, address: str = "10.0.0.7", **rates: str) -> Iterator[TestClient]:
    settings = Settings(database_url=url, model_hosts=(), **rates)  # type: ignore[arg-type]
    with TestClient(create_app(settings), client=(address, 50_000), raise_server_exceptions=False) as client:
        yield client


def from_(client: TestClient, address: str, path: str = "/gpus/rtx-3090") -> httpx2.Response:
    """Ask from another address."""
    client._transport.client = (address, 50_000)  # type: ignore[attr-defined]
    return client.get(path)


def test_an_address_that_asks_too_much_is_told_to_wait(url: str) -> None:
    """What is left stands in every answer; beyond it there is a problem with the seconds to wait."""
    with client_of(url, rate_limit_per_address="3/minute") as client:
        answers = [client.get("/gpus/rtx-3090") for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200] * 3
        assert answers[0].headers["ratelimit"].startswith('"address";r=2;t=')
        assert answers[0].headers["ratelimit-policy"] == '"address";q=3;w=60'
        refused = client.get("/gpus/rtx-3090")
        assert expect_problem(refused, "rate-limited").instance == "/gpus/rtx-3090"
        assert 15 <= int(refused.headers["retry-after"]) <= 20
        for path in ("/healthz", "/readyz", "/static/page.css"):
            assert client.get(path).status_code == 200


def test_others_are_not_refused_with_it(url: str) -> None:
    """Each address has its own share, each /64 of IPv6 one, and mapped IPv4 is IPv4."""
    with client_of(url, rate_limit_per_address="1/hour") as client:
        seen = [
            from_(client, address).status_code
            for address in ("10.0.0.1", "10.0.0.2", "::ffff:10.0.0.2", "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1")
        ]
    assert seen == [200, 200, 429, 200, 429, 200]


def test_dear_questions_take_more(url: str) -> None:
    """One recommendation takes what ten plans do, also where it turns out to be none."""
    with client_of(url, rate_limit_per_address="100/minute") as client:
        left = client.post("/recommend", json={}).headers["ratelimit"]
    assert left.startswith('"address";r=90;')


def test_a_key_has_its_own_rate(url: str) -> None:
    """It is counted by itself wherever it comes from; a wrong one counts for the address."""
    with opened(url) as database:
        key = {"X-API-Key": make_key(database, "counted", ["read"]).text}
    with client_of(url, rate_limit_per_address="2/hour", rate_limit_per_key="3/hour") as client:
        assert client.get("/gpus", headers=key).headers["ratelimit"].startswith('"key";r=2;')
        statuses = [client.get("/gpus", headers=key).status_code for _ in range(3)]
        assert statuses == [200, 200, 429]
        wrong = [client.get("/gpus", headers={"X-API-Key": new_key()}).status_code for _ in range(3)]
        assert wrong == [401, 401, 429]


@pytest.mark.parametrize("headers", [{"x-forwarded-for": "1.2.3.4"}, {"forwarded": "for=1.2.3.4"}], ids=str)
def test_no_header_gives_another_address(url: str, headers: Mapping[str, str]) -> None:
    """Who says he is someone else is still counted as himself."""
    with client_of(url, rate_limit_per_address="1/hour") as client:
        assert client.get("/gpus").status_code == 200
        expect_problem(client.get("/gpus", headers=headers), "rate-limited")


def test_without_rates_nothing_is_counted(url: str) -> None:
    """No header speaks of what is not set."""
    with client_of(url) as client:
        assert "ratelimit" not in client.get("/gpus/rtx-3090").headers


def test_a_trusted_proxy_says_for_whom_it_asks(sqlite: Databases) -> None:
    """Over a real socket: its word counts where it is trusted, and nobody's by default."""
    url = sqlite.copy_of("seeded", migrate_and_seed)
    seen = {}
    for trusted in ("", "127.0.0.0/8"):
        with running(
            RIGFIT_DATABASE_URL=url, RIGFIT_RATE_LIMIT_PER_ADDRESS="1/hour", RIGFIT_TRUSTED_PROXIES=trusted
        ) as server:
            wait_until_ready(server.process, f"{server.address}/readyz")
            with httpx2.Client(base_url=server.address) as client:
                # the last hop is what the proxy itself saw; what stands before it anyone can have written
                hops = ("10.0.0.1", "10.0.0.2", "10.9.9.9, 10.0.0.2")
                seen[trusted] = [client.get("/gpus", headers={"x-forwarded-for": hop}).status_code for hop in hops]
    assert seen == {"": [200, 429, 429], "127.0.0.0/8": [200, 200, 429]}


def test_processes_of_one_database_count_together(postgresql: Databases) -> None:
    """Two real servers, asked in turns, let through what one would, and at most what comes in two exchanges more."""
    url, quota, asked_per_s, asking_s = postgresql.copy_of("seeded", migrate_and_seed), 40, 10, 8.0
    with ExitStack() as ending:
        clients = []
        for _ in range(2):
            server = ending.enter_context(
                running(RIGFIT_DATABASE_URL=url, RIGFIT_RATE_LIMIT_PER_ADDRESS=f"{quota}/minute")
            )
            wait_until_ready(server.process, f"{server.address}/readyz")
            clients.append(ending.enter_context(httpx2.Client(base_url=server.address)))
        began_s, answers, took_s = time.monotonic(), [], 0.0
        turns = cycle(clients)
        while took_s < asking_s:
            answers.append(next(turns).get("/gpus/rtx-3090"))
            took_s = time.monotonic() - began_s
            time.sleep(max(0.0, len(answers) / asked_per_s - took_s))
        passed = [answer for answer in answers if answer.status_code == 200]
        came_back = quota * took_s / 60
        assert quota <= len(passed) <= quota + came_back + 2 * EXCHANGE_S * asked_per_s < len(answers)
        time.sleep(EXCHANGE_S)
        waits_s = [int(client.get("/gpus/rtx-3090").headers["retry-after"]) for client in clients]
        assert abs(waits_s[0] - waits_s[1]) <= 2
        # what passed beyond the quota is waited for too
        assert max(waits_s) <= (len(passed) - quota + 1) * 60 / quota + 1
        time.sleep(max(waits_s))
        assert clients[0].get("/gpus/rtx-3090").status_code == 200
        with opened(url) as database, database.connect() as connection:
            rows = connection.execute(select(RateUseTable.policy, RateUseTable.caller)).all()
        assert [(row.policy, "127.0.0.1" in row.caller) for row in rows] == [("address", False)]
