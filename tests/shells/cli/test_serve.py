"""`rigfit serve` in one process and in several."""

import os
import signal
import subprocess
import time

import httpx2
import psutil
import pytest

from tests.databases import Databases, migrate_and_seed
from tests.servers import COMMAND, free_port, wait_until_ready
from tests.shells.rest.test_plan import QUESTION


@pytest.mark.parametrize("workers", [1, 2])
def test_processes_answer_and_stop_together(sqlite: Databases, workers: int) -> None:
    """As many processes as asked for answer at one port, and a request to stop ends all of them."""
    port = free_port()
    environment = os.environ | {"RIGFIT_DATABASE_URL": sqlite.copy_of("seeded", migrate_and_seed)}
    with subprocess.Popen(
        [COMMAND, "serve", "--port", str(port), "--workers", str(workers)], env=environment
    ) as started:
        url = f"http://127.0.0.1:{port}"
        wait_until_ready(started, f"{url}/readyz")
        processes = listening_processes(started.pid, port, workers)
        assert httpx2.post(f"{url}/plan", json=QUESTION).status_code == 200
        started.send_signal(signal.SIGTERM)
        started.wait(timeout=20)
    assert not any(process.is_running() for process in processes)


def listening_processes(pid: int, port: int, count: int) -> list[psutil.Process]:
    """The server's processes that have opened the port, once they are `count`; raises TimeoutError."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        parent = psutil.Process(pid)
        family = [parent, *parent.children(recursive=True)] if count == 1 else parent.children(recursive=True)
        found = [process for process in family if listens(process, port)]
        if len(found) == count:
            return found
        time.sleep(0.1)
    raise TimeoutError(f"{count} processes did not listen within 20 s")


def listens(process: psutil.Process, port: int) -> bool:
    """Whether a process has opened the port."""
    return any(
        connection.status == psutil.CONN_LISTEN and connection.laddr.port == port
        for connection in process.net_connections()
    )
