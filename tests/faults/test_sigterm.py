"""SIGTERM under load: balancers are told first, and whatever was accepted is answered and kept."""

import json
import signal
import threading
import time
from dataclasses import dataclass, field

import httpx2
import pytest

from tests.databases import Databases, migrate_and_seed, opened
from tests.faults.test_database_away import eventually, question
from tests.faults.test_slow_clients import HEAD, connected, everything
from tests.servers import RunningService, running, wait_until_ready
from tests.shells.rest.test_problems import expect_problem


@dataclass(slots=True)
class Client:
    """One that keeps plans one after the other, until it is told that the connection ends."""

    service: RunningService
    kept: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    was_turned_away: bool = False

    def run(self) -> None:
        """Ask until turned away; whatever else ends it is a failure."""
        with httpx2.Client(base_url=self.service.address, timeout=20) as client:
            while not self.was_turned_away:
                try:
                    answer = client.post("/plans", json=question())
                except httpx2.HTTPError as lost:
                    self.failures.append(repr(lost))
                    return
                if answer.status_code != 201:
                    self.failures.append(answer.text)
                self.kept.append(answer.headers["location"])
                self.was_turned_away = answer.headers.get("connection") == "close"


@pytest.mark.parametrize("workers", [1, 2])
def test_no_accepted_request_is_lost(sqlite: Databases, workers: int) -> None:
    """Every request sent before a client is turned away is answered, and what it keeps is there afterwards."""
    url = sqlite.copy_of("seeded", migrate_and_seed)
    with running(RIGFIT_DATABASE_URL=url, RIGFIT_DRAIN_S="3", RIGFIT_WORKERS=str(workers)) as service:
        wait_until_ready(service.process, f"{service.address}/readyz")
        clients = [Client(service) for _ in range(4)]
        threads = [threading.Thread(target=client.run) for client in clients]
        for thread in threads:
            thread.start()
        assert eventually(lambda: all(len(client.kept) > 3 for client in clients))
        service.process.send_signal(signal.SIGTERM)
        assert eventually(lambda: httpx2.get(f"{service.address}/readyz").status_code == 503, within_s=3)
        assert "about to end" in expect_problem(httpx2.get(f"{service.address}/readyz"), "not-ready").detail
        for thread in threads:
            thread.join()
        assert service.process.wait(20) in {0, -signal.SIGTERM}
    assert [failure for client in clients for failure in client.failures] == []
    assert all(client.was_turned_away for client in clients)
    assert missing(url, [address for client in clients for address in client.kept]) == []


def missing(url: str, addresses: list[str]) -> list[str]:
    """Addresses of plans that a database has not."""
    with opened(url) as database, database.connect() as connection:
        held = {row[0] for row in connection.exec_driver_sql("SELECT id FROM saved_plans")}
    return [address for address in addresses if address.removeprefix("/plans/") not in held]


@pytest.mark.parametrize("cut_at", [-20, len(HEAD) - 9], ids=["in the body", "in the head"])
def test_a_request_that_is_being_sent_is_answered(sqlite: Databases, cut_at: int) -> None:
    """What began to come before the end is waited for and answered, and its connection is closed."""
    with running(RIGFIT_DATABASE_URL=sqlite.copy_of("seeded", migrate_and_seed)) as service:
        wait_until_ready(service.process, f"{service.address}/readyz")
        body = json.dumps({**question(), "workload": {"context_tokens": 4096}}).encode()
        request = HEAD + f"content-length: {len(body)}\r\n\r\n".encode() + body
        with connected(service) as connection:
            connection.sendall(request[:cut_at])
            time.sleep(0.3)
            service.process.send_signal(signal.SIGTERM)
            assert eventually(lambda: refuses(service))
            connection.sendall(request[cut_at:])
            head, _, plan = everything(connection).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        assert b"connection: close" in head
        assert json.loads(plan)["verdict"] == "fits"
        assert service.process.wait(20) in {0, -signal.SIGTERM}


def refuses(service: RunningService) -> bool:
    """Whether nothing listens any more."""
    try:
        connected(service).close()
    except ConnectionRefusedError:
        return True
    return False


def test_a_client_that_never_finishes_does_not_keep_the_process(sqlite: Databases) -> None:
    """After the time for requests under way the process ends."""
    url = sqlite.copy_of("seeded", migrate_and_seed)
    with running(RIGFIT_DATABASE_URL=url, RIGFIT_FINISH_S="1") as service:
        wait_until_ready(service.process, f"{service.address}/readyz")
        with connected(service) as connection:
            connection.sendall(HEAD + b"content-length: 500\r\n\r\n{")
            time.sleep(0.3)
            service.process.send_signal(signal.SIGTERM)
            started = time.monotonic()
            service.process.wait(20)
            assert 1 < time.monotonic() - started < 10
