"""A real server, over a real socket."""

import time
from collections.abc import Iterator

import httpx2
import pytest

from tests.databases import Databases
from tests.servers import served
from tests.shells.rest.test_plan import QUESTION
from tests.shells.rest.test_problems import expect_problem

JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def server(sqlite: Databases) -> Iterator[httpx2.Client]:
    """A client of a server in its own process."""
    with served(sqlite) as address, httpx2.Client(base_url=address, timeout=30) as client:
        yield client


def test_a_plan_over_the_wire(server: httpx2.Client) -> None:
    """A served plan is the plan of the contract."""
    answer = server.post("/plan", json=QUESTION)
    assert answer.status_code == 200
    assert answer.json()["command"]["argv"][0] == "llama-server"


def test_ten_megabytes_are_refused_quickly(server: httpx2.Client) -> None:
    """A client that sends far too much gets its answer, not a broken connection, and at once."""
    started = time.monotonic()
    expect_problem(server.post("/plan", content=b" " * 10_000_000, headers=JSON), "too-large")
    expect_problem(server.post("/plan", content=iter([b" " * 100_000] * 100), headers=JSON), "too-large")
    assert time.monotonic() - started < 5


def test_a_bad_request_leaves_the_connection_usable(server: httpx2.Client) -> None:
    """After a problem the next request on the same connection is answered."""
    expect_problem(server.post("/plan", content=b"{", headers=JSON), "invalid-request")
    assert server.get("/healthz").status_code == 200


def test_the_documentation_is_served(server: httpx2.Client) -> None:
    """The OpenAPI document and a page to try it are there."""
    assert server.get("/openapi.json").json()["openapi"].startswith("3.1")
    assert "openapi.json" in server.get("/docs").text
