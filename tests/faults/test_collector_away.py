"""The collector of spans refuses connections, or takes them and says nothing: the service goes on, and ends in time."""

import http.client
import json
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

from service.core.units import MIB
from service.shells.serving.otlp_tracing import CLOSE_S
from tests.databases import Databases, migrate_and_seed
from tests.faults.test_database_away import question
from tests.servers import RunningService, free_port, running, wait_until_ready

# a small queue, so that it is full soon
SETTINGS = {
    "RIGFIT_TRACES": "true",
    "OTEL_BSP_SCHEDULE_DELAY": "100",
    "OTEL_BSP_MAX_QUEUE_SIZE": "64",
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "64",
}


@contextmanager
def nobody() -> Iterator[str]:
    """An address at which connections are refused."""
    yield f"http://127.0.0.1:{free_port()}"


@contextmanager
def silence() -> Iterator[str]:
    """An address that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("away", [nobody, silence])
def test_a_collector_that_is_away_holds_up_nothing(sqlite: Databases, away: Any, tmp_path: Path) -> None:
    """Requests are answered, what waits for it is bounded, and the process ends in seconds."""
    url = sqlite.copy_of("seeded", migrate_and_seed)
    with (
        away() as address,
        running(tmp_path / "log", RIGFIT_DATABASE_URL=url, OTEL_EXPORTER_OTLP_ENDPOINT=address, **SETTINGS) as service,
    ):
        wait_until_ready(service.process, f"{service.address}/readyz")
        ask(service, 1500)
        before = psutil.Process(service.process.pid).memory_info().rss
        ask(service, 1500)
        # a span takes 4 KiB: those of 1,500 requests would be 6 MiB
        assert psutil.Process(service.process.pid).memory_info().rss - before < 3 * MIB
        service.process.send_signal(signal.SIGTERM)
        began_s = time.monotonic()
        assert service.process.wait(30) in {0, -signal.SIGTERM}
        assert time.monotonic() - began_s < CLOSE_S + 5


def ask(service: RunningService, times: int) -> None:
    """Ask the same again and again on one connection."""
    url, body = httpx2.URL(service.address), json.dumps(question())
    connection = http.client.HTTPConnection(url.host, url.port or 80, timeout=20)
    for _ in range(times):
        connection.request("POST", "/plan", body, {"content-type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 200
        answer.read()
    connection.close()
