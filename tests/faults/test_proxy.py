"""Two replicas on one PostgreSQL behind the composition's proxy: a real HAProxy with the shipped configuration."""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from service.planning.access.keys import make_key
from service.planning.access.scopes import SCOPES
from tests.databases import Databases, migrate_and_seed, opened
from tests.faults.test_database_away import eventually, question
from tests.faults.test_sigterm import missing
from tests.faults.test_slow_clients import HEAD, everything
from tests.faults.writers import writing
from tests.name_server import naming
from tests.servers import RunningService, free_port, running, wait_until_ready
from tests.structure.repository import ROOT

pytestmark = [pytest.mark.proxy, pytest.mark.xdist_group("proxy")]

CONFIGURATION = ROOT / "docker" / "haproxy.cfg"
HOSTS = ("127.0.0.2", "127.0.0.3")
# of the proxy: it comes to the replicas from here, and they believe nobody else
PROXY_HOST = "127.0.0.1"
QUOTA = 10
DRAIN_S = 5
LATE_S = 30.0
# the proxy's own limit for the head of a request, and a little
HEAD_WITHIN_S = 15.0


def haproxy() -> str:
    """Where HAProxy is; raises FileNotFoundError where it is not."""
    found = os.environ.get("RIGFIT_TEST_HAPROXY") or shutil.which("haproxy")
    if found is None:
        raise FileNotFoundError("no HAProxy: script/haproxy installs it, -m 'not slow and not proxy' does without")
    return found


@dataclass(slots=True, kw_only=True)
class Composition:
    """The proxy's address, and the replicas behind it, which can be ended and started."""

    address: str
    port: int
    settings: dict[str, str]
    key: str
    folder: Path
    ending: ExitStack
    replicas: dict[str, RunningService] = field(default_factory=dict)

    def start(self, host: str) -> None:
        """Start the replica of an address."""
        log = self.folder / f"{host}.log"
        started = self.ending.enter_context(running(log, f"{host}:{self.port}", **self.settings))
        wait_until_ready(started.process, f"{started.address}/readyz")
        self.replicas[host] = started

    def kill(self) -> None:
        """End the replicas at once."""
        for one in self.replicas.values():
            one.process.kill()

    def client(self, local: str = "127.0.0.1", key: str | None = None) -> httpx2.Client:
        """A client of the proxy's, at an address of this machine."""
        headers = {} if key is None else {"X-API-Key": key}
        transport = httpx2.HTTPTransport(local_address=local)
        return httpx2.Client(base_url=self.address, transport=transport, headers=headers, timeout=LATE_S)

    def answered(self, host: str) -> float:
        """Plans that a replica has kept, as it says itself."""
        text = httpx2.get(f"{self.replicas[host].address}/metrics", timeout=LATE_S).text
        samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
        return sum(
            sample.value
            for sample in samples
            if sample.name == "rigfit_http_requests_total" and sample.labels["route"] == "/plans"
        )

    def logged_clients(self, request_id: str) -> list[str]:
        """Where a request came from, as the replicas' logs have it."""
        lines = [line for host in HOSTS for line in (self.folder / f"{host}.log").read_text("utf-8").splitlines()]
        events = [json.loads(line) for line in lines]
        return [event["client"] for event in events if event.get("request_id") == request_id and "client" in event]


@pytest.fixture(scope="module")
def composition(postgresql: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Composition]:
    """Both replicas and the proxy, which has found them."""
    url, folder, port = postgresql.copy_of("seeded", migrate_and_seed), tmp_path_factory.mktemp("proxy"), free_port()
    with opened(url) as database:
        key = make_key(database, "ci", SCOPES).text
    settings = {
        "RIGFIT_DATABASE_URL": url,
        "RIGFIT_TRUSTED_PROXIES": PROXY_HOST,
        "RIGFIT_RATE_LIMIT_PER_ADDRESS": f"{QUOTA}/hour",
        "RIGFIT_LOG_FORMAT": "json",
        "RIGFIT_DRAIN_S": str(DRAIN_S),
        "RIGFIT_REQUEST_BODY_S": "1",
    }
    with ExitStack() as ending:
        names = ending.enter_context(naming(list(HOSTS)))
        listen = f"127.0.0.1:{free_port()}"
        composition = Composition(
            address=f"http://{listen}", port=port, settings=settings, key=key, folder=folder, ending=ending
        )
        ending.callback(composition.kill)
        for host in HOSTS:
            composition.start(host)
        variables = {
            "RIGFIT_PROXY_LISTEN": listen,
            "RIGFIT_PROXY_NAMESERVER": names,
            "RIGFIT_PROXY_REPLICAS": f"service:{port}",
        }
        with (folder / "haproxy.log").open("ab") as log:
            command = [haproxy(), "-db", "-f", str(CONFIGURATION)]
            proxy = ending.enter_context(subprocess.Popen(command, env=os.environ | variables, stdout=log, stderr=log))
        ending.callback(proxy.kill)
        wait_until_ready(proxy, f"{composition.address}/readyz")
        assert eventually(partial(both_answer, composition))
        yield composition


def both_answer(composition: Composition) -> bool:
    """Whether each replica gets requests over the proxy."""
    before = {host: composition.answered(host) for host in HOSTS}
    with composition.client(key=composition.key) as client:
        for _ in range(4):
            assert client.post("/plans", json=question()).status_code == 201
    return all(composition.answered(host) > before[host] for host in HOSTS)


def test_the_configuration_is_valid_as_it_is_shipped() -> None:
    """With its own addresses, without a warning."""
    checked = subprocess.run([haproxy(), "-c", "-f", CONFIGURATION], check=False, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    assert "WARNING" not in checked.stderr


def test_a_replica_that_ends_loses_no_request(composition: Composition) -> None:
    """SIGTERM under load: it gets nothing new once the proxy has looked, and is used again once it is back."""
    ended, other = HOSTS
    with ExitStack() as load:
        client = partial(composition.client, key=composition.key)
        writers = [load.enter_context(writing(client)) for _ in range(4)]
        assert eventually(lambda: all(len(writer.kept) > 2 for writer in writers))
        began_s = time.monotonic()
        composition.replicas[ended].process.send_signal(signal.SIGTERM)
        time.sleep(DRAIN_S - 2.5)
        quiet, busy = composition.answered(ended), composition.answered(other)
        time.sleep(1)
        # on a machine so busy that the drain is over there is nobody to be asked
        with suppress(httpx2.HTTPError):
            assert composition.answered(ended) == quiet
        assert composition.replicas[ended].process.wait(30) in {0, -signal.SIGTERM}
        assert time.monotonic() - began_s >= DRAIN_S
        assert eventually(lambda: composition.answered(other) > busy)
        composition.start(ended)
        assert eventually(lambda: composition.answered(ended) > 0)
        kept = [address for writer in writers for address in writer.kept]
        assert [failure for writer in writers for failure in writer.failures] == []
    assert missing(composition.settings["RIGFIT_DATABASE_URL"], kept) == []


def test_a_replica_that_stands_still_is_taken_out_and_in(composition: Composition) -> None:
    """SIGSTOP: the proxy asks the other alone within seconds; when it goes on, it is used again."""
    process = composition.replicas[HOSTS[0]].process
    process.send_signal(signal.SIGSTOP)
    try:
        time.sleep(3)
        with composition.client(key=composition.key) as client:
            answers = [client.post("/plans", json=question()) for _ in range(6)]
        assert {answer.status_code for answer in answers} == {201}
    finally:
        process.send_signal(signal.SIGCONT)
    assert eventually(partial(both_answer, composition))


def test_replicas_see_who_asks_the_proxy(composition: Composition) -> None:
    """Each caller has a rate of its own, whatever it says of itself; only the proxy is believed."""
    said = {"X-Forwarded-For": "198.51.100.7", "X-Request-ID": "asked-by-21"}
    asked = question()
    with composition.client("127.0.0.21") as one, composition.client("127.0.0.22") as another:
        statuses = [one.post("/plan", json=asked, headers=said).status_code for _ in range(2 * QUOTA + 2)]
        assert statuses[-1] == 429
        assert another.post("/plan", json=asked).status_code == 200
        assert another.get("/metrics").status_code == 404
    assert eventually(lambda: len(composition.logged_clients("asked-by-21")) == len(statuses))
    assert set(composition.logged_clients("asked-by-21")) == {"127.0.0.21"}
    direct = httpx2.HTTPTransport(local_address="127.0.0.23")
    with httpx2.Client(base_url=composition.replicas[HOSTS[0]].address, transport=direct, timeout=LATE_S) as client:
        client.post("/plan", json=asked, headers=said | {"X-Request-ID": "asked-by-23"})
    assert eventually(lambda: composition.logged_clients("asked-by-23") == ["127.0.0.23"])


def connected(composition: Composition) -> socket.socket:
    """A connection to the proxy."""
    url = httpx2.URL(composition.address)
    connection = socket.socket()
    connection.settimeout(LATE_S)
    connection.connect((url.host, url.port or 80))
    return connection


def expect_served(composition: Composition) -> None:
    """Check that another client is answered meanwhile."""
    began_s = time.monotonic()
    with composition.client(key=composition.key) as client:
        assert client.post("/plan", json=question()).status_code == 200
    assert time.monotonic() - began_s < LATE_S / 2


def test_slow_and_silent_clients_of_the_proxy_are_given_up(composition: Composition) -> None:
    """A hundred heads that do not end, and connections that say nothing: others are answered, the replicas see none."""
    began_s = time.monotonic()
    with ExitStack() as open_ones:
        slow = [open_ones.enter_context(connected(composition)) for _ in range(120)]
        for connection in slow[20:]:
            connection.sendall(HEAD)
        expect_served(composition)
        answers = [everything(connection) for connection in slow]
    assert time.monotonic() - began_s < HEAD_WITHIN_S
    assert all(answer == b"" or answer.startswith(b"HTTP/1.1 408 ") for answer in answers)


def test_bodies_that_do_not_end_are_answered_through_the_proxy(composition: Composition) -> None:
    """The replica's 408 reaches each of fifty clients, and others are answered meanwhile."""
    with ExitStack() as open_ones:
        slow = [open_ones.enter_context(connected(composition)) for _ in range(50)]
        for connection in slow:
            key = f"x-api-key: {composition.key}\r\n".encode()
            connection.sendall(HEAD + key + b'content-length: 500\r\n\r\n{"model"')
        expect_served(composition)
        answers = [answer_to(connection) for connection in slow]
    assert {(status, problem["type"]) for status, problem in answers} == {(408, "/problems/request-timeout")}


def answer_to(connection: socket.socket) -> tuple[int, Any]:
    """Status and content of the answer that comes; the connection may stay."""
    answer = http.client.HTTPResponse(connection)
    answer.begin()
    return answer.status, json.loads(answer.read())
