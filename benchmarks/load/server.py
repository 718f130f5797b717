"""A server in its own processes, started as `rigfit serve` starts it, and what it costs."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.error import URLError
from urllib.request import Request, urlopen

import psutil

from tests.servers import COMMAND, free_port

START_S = 60.0


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    url: str
    process: psutil.Process
    first_answer_s: float

    def cpu_s(self) -> float:
        """CPU time of all its processes so far, in seconds."""
        times = [process.cpu_times() for process in self._processes()]
        return float(sum(time.user + time.system for time in times))

    def resident_bytes(self) -> int:
        """Resident memory of its largest process: with several, of a worker."""
        return max(int(process.memory_info().rss) for process in self._processes())

    def _processes(self) -> list[psutil.Process]:
        return [self.process, *self.process.children(recursive=True)]


@contextmanager
def rigfit_server(environment: Mapping[str, str], workers: int, body: bytes) -> Iterator[Server]:
    """`rigfit serve`; timed from its start to its first answer to `body` at /plan."""
    with _served([str(COMMAND), "serve"], environment, workers, "/plan", body) as server:
        yield server


@contextmanager
def empty_server(factory: str, environment: Mapping[str, str], workers: int, body: bytes) -> Iterator[Server]:
    """The application that `factory` makes, served by the same function as `rigfit serve`'s own."""
    program = "import sys; from benchmarks.load.server import serve_empty; serve_empty(*sys.argv[1:])"
    with _served([sys.executable, "-c", program, factory], environment, workers, "/bytes", body) as server:
        yield server


def serve_empty(factory: str, _port: str, port: str, _workers: str, workers: str) -> None:
    """Serve what `factory` makes; takes the options of `rigfit serve`."""
    from service.settings import settings  # noqa: PLC0415 - read in the server's own process
    from service.shells.cli.serve import serve_application  # noqa: PLC0415

    chosen = settings()
    serve_application(factory, chosen, host=chosen.host, port=int(port), workers=int(workers))


@contextmanager
def _served(
    command: list[str], environment: Mapping[str, str], workers: int, path: str, body: bytes
) -> Iterator[Server]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    started = time.perf_counter()
    with subprocess.Popen(
        [*command, "--port", str(port), "--workers", str(workers)],
        env=os.environ | environment,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            _first_answer(process, url + path, body)
            yield Server(url, psutil.Process(process.pid), time.perf_counter() - started)
        finally:
            process.terminate()


def _first_answer(process: subprocess.Popen[bytes], url: str, body: bytes) -> None:
    """Ask until there is an answer; raises TimeoutError or ChildProcessError where none will come."""
    request = Request(url, body, {"content-type": "application/json"})  # noqa: S310 - an address of this machine
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise ChildProcessError(f"the server ended with status {process.returncode}")
        try:
            with urlopen(request, timeout=START_S) as answer:  # noqa: S310 - an address of this machine
                answer.read()
                return
        except (URLError, ConnectionError):
            time.sleep(0.005)
    raise TimeoutError(f"{url} did not answer within {START_S} s")
