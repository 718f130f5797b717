"""A real server in its own process, as `rigfit serve` starts it."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from tests.databases import Databases, migrate_and_seed

START_S = 30.0
COMMAND = Path(sys.executable).parent / "rigfit"


@contextmanager
def served(databases: Databases) -> Iterator[str]:
    """Serve a seeded database on a free port until the end of the block; gives the address."""
    with running(RIGFIT_DATABASE_URL=databases.copy_of("seeded", migrate_and_seed)) as service:
        wait_until_ready(service.process, f"{service.address}/readyz")
        yield service.address


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningService:
    """`rigfit serve` in its own process, which may not be ready yet."""

    process: subprocess.Popen[bytes]
    address: str
    log: Path | None = None


@contextmanager
def running(log: Path | None = None, at: str | None = None, /, **settings: str) -> Iterator[RunningService]:
    """Serve until the end of the block, with these RIGFIT_ variables; its log goes to a file, if named.

    at: address and port, those of this machine and a free one where none are named.
    Nothing is answered for any balancer: it ends without waiting for one.
    """
    host, _, port = (at or f"127.0.0.1:{free_port()}").rpartition(":")
    environment = os.environ | {"RIGFIT_DRAIN_S": "0"} | settings
    command = [str(COMMAND), "serve", "--host", host, "--port", port]
    with ExitStack() as ending:
        stderr = ending.enter_context(log.open("ab")) if log is not None else None
        process = ending.enter_context(subprocess.Popen(command, env=environment, stderr=stderr))
        ending.callback(process.terminate)
        yield RunningService(process=process, address=f"http://{host}:{port}", log=log)


def wait_until_ready(server: subprocess.Popen[bytes], url: str) -> None:
    """Poll until the server answers; raises TimeoutError or ChildProcessError where it never will."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise ChildProcessError(f"the server ended with status {server.returncode}")
        try:
            with urlopen(url, timeout=1):  # noqa: S310 - an address of this machine
                return
        except (URLError, TimeoutError, ConnectionError):
            time.sleep(0.05)
    raise TimeoutError(f"{url} did not answer within {START_S} s")


def free_port() -> int:
    """A TCP port of this machine that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
