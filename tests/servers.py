"""A real server in its own process, as `rigfit serve` starts it."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from tests.databases import Databases, migrate_and_seed

START_S = 30.0
COMMAND = Path(sys.executable).parent / "rigfit"


@contextmanager
def served(databases: Databases) -> Iterator[str]:
    """Serve a seeded database on a free port until the end of the block; gives the address."""
    address = f"127.0.0.1:{free_port()}"
    environment = os.environ | {"RIGFIT_DATABASE_URL": databases.copy_of("seeded", migrate_and_seed)}
    host, _, port = address.partition(":")
    with subprocess.Popen([COMMAND, "serve", "--host", host, "--port", port], env=environment) as server:
        try:
            wait_until_ready(server, f"http://{address}/readyz")
            yield f"http://{address}"
        finally:
            server.terminate()


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
