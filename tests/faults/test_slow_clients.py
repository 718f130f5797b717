"""Clients that hardly send, hardly read, or say nothing: they lose their connection, the others notice nothing."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx2
import pytest

from tests.databases import Databases, migrate_and_seed
from tests.faults.test_database_away import eventually, question
from tests.servers import RunningService, running, wait_until_ready

LIMITS = {
    "RIGFIT_REQUEST_HEAD_S": "1",
    "RIGFIT_REQUEST_BODY_S": "1",
    "RIGFIT_RESPONSE_READ_S": "1",
    "RIGFIT_KEEP_ALIVE_S": "1",
}
# a limit of a second is kept within this time on a busy machine
AT_MOST_S = 20.0
# Source: Linux, include/net/tcp_states.h and Documentation/networking/proc_net_tcp.rst
ESTABLISHED, KEEP_ALIVE_TIMER = "01", "02:"
HEAD = b"POST /plan HTTP/1.1\r\nhost: rigfit\r\ncontent-type: application/json\r\n"


@pytest.fixture(scope="module")
def service(sqlite: Databases) -> Iterator[RunningService]:
    """A service that waits for a second at most."""
    with running(RIGFIT_DATABASE_URL=sqlite.copy_of("seeded", migrate_and_seed), **LIMITS) as service:
        wait_until_ready(service.process, f"{service.address}/readyz")
        yield service


def connected(service: RunningService, receive_buffer_bytes: int | None = None) -> socket.socket:
    """A connection to the service, which is waited for at most so long."""
    url = httpx2.URL(service.address)
    connection = socket.socket()
    if receive_buffer_bytes is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
    connection.settimeout(AT_MOST_S)
    try:
        connection.connect((url.host, url.port))
    except OSError:
        connection.close()
        raise
    return connection


def everything(connection: socket.socket) -> bytes:
    """What comes until the other side ends the connection; raises TimeoutError where it does not."""
    received = bytearray()
    try:
        while data := connection.recv(65536):
            received += data
    except ConnectionResetError:
        pass
    return bytes(received)


def at_the_service(connection: socket.socket) -> list[tuple[str, str]]:
    """State and timer of the service's end of a connection, as the kernel's table has it, until it has left it."""
    ours, theirs = connection.getsockname()[1], connection.getpeername()[1]
    rows = [line.split() for line in Path("/proc/net/tcp").read_text("utf-8").splitlines()[1:]]
    return [(row[3], row[5]) for row in rows if row[1].endswith(f":{theirs:04X}") and row[2].endswith(f":{ours:04X}")]


def expect_served(service: RunningService, within_s: float = AT_MOST_S / 2) -> None:
    """Check that another client is answered meanwhile."""
    started = time.monotonic()
    assert httpx2.post(f"{service.address}/plan", json=question(), timeout=20).status_code == 200
    assert time.monotonic() - started < within_s


def test_heads_that_never_end_are_given_up(service: RunningService) -> None:
    """A hundred clients that send a header a moment hold up no other, and are cut off together."""
    with ExitStack() as open_ones:
        slow = [open_ones.enter_context(connected(service)) for _ in range(100)]
        for connection in slow:
            connection.sendall(HEAD)
        for _ in range(2):
            expect_served(service)
            for connection in slow:
                # on a busy machine the first are given up by now
                with suppress(ConnectionError):
                    connection.sendall(b"x-more: 1\r\n")
        assert [everything(connection) for connection in slow] == [b""] * len(slow)


def test_a_body_that_never_ends_is_answered_408(service: RunningService) -> None:
    """A client that stops in the middle of its body is told so, as a problem, and others are answered meanwhile."""
    with ExitStack() as open_ones:
        slow = [open_ones.enter_context(connected(service)) for _ in range(50)]
        for connection in slow:
            connection.sendall(HEAD + b'content-length: 500\r\n\r\n{"model"')
        expect_served(service)
        for connection in slow:
            head, _, body = everything(connection).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 408 ")
            assert b"connection: close" in head
            assert json.loads(body)["type"] == "/problems/request-timeout"


def test_a_body_that_keeps_coming_is_waited_for(service: RunningService) -> None:
    """A slow line earns time by what it brings: a body of three kilobytes over two seconds is answered."""
    body = json.dumps(question()).encode().ljust(3000)
    with connected(service) as connection:
        connection.sendall(HEAD + b"connection: close\r\ncontent-length: 3000\r\n\r\n")
        for start in range(0, 3000, 600):
            connection.sendall(body[start : start + 600])
            time.sleep(0.4)
        assert everything(connection).startswith(b"HTTP/1.1 200 ")


def test_a_client_that_reads_nothing_is_cut_off(service: RunningService) -> None:
    """Answers that nobody takes do not pile up: the connection ends before all of them are sent."""
    asked = 60
    with connected(service, receive_buffer_bytes=4096) as connection:
        connection.sendall(b"GET /openapi.json HTTP/1.1\r\nhost: rigfit\r\n\r\n" * asked)
        expect_served(service)
        assert eventually(lambda: all(state != ESTABLISHED for state, _ in at_the_service(connection)))
        assert everything(connection).count(b"HTTP/1.1 200 ") < asked


@pytest.mark.parametrize("said", [b"", b"\r\n", b"GET /healthz HTTP/1.1\r\nhost: rigfit\r\n\r\n"])
def test_a_connection_that_says_nothing_more_is_closed(service: RunningService, said: bytes) -> None:
    """Whether it never asked, or was answered: a peer that is gone keeps no connection."""
    with connected(service) as connection:
        connection.sendall(said)
        received = everything(connection)
        assert received.startswith(b"HTTP/1.1 200 ") if len(said) > 2 else received == b""


def test_the_system_probes_a_peer_that_is_silent(service: RunningService) -> None:
    """Each connection has the kernel's keep-alive timer, which ends it where the peer's machine is gone."""
    with connected(service) as connection:
        expect_served(service)
        ((_, timer),) = at_the_service(connection)
        assert timer.startswith(KEEP_ALIVE_TIMER)
