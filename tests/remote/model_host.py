"""A real HTTP server that plays a model host, well or badly; what it was asked is kept."""

import re
import ssl
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

import orjson

from service.remote.hosts import host_rules
from service.remote.hubs import ModelHosts
from service.remote.session import Access

_RANGE = re.compile(r"bytes=(\d+)-(\d+)")
CHUNK_BYTES = 16 * 1024


@dataclass(slots=True)
class Exchange:
    """One request, and the way to answer it."""

    handler: BaseHTTPRequestHandler
    path: str
    headers: Mapping[str, str]
    sent_bytes: int = 0

    @property
    def range(self) -> tuple[int, int] | None:
        """First and last byte that were asked for."""
        match = _RANGE.fullmatch(self.headers.get("range", ""))
        return (int(match[1]), int(match[2])) if match else None

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        """Send status and headers."""
        self.handler.send_response(status)
        for name, value in headers.items():
            self.handler.send_header(name, value)
        self.handler.end_headers()

    def body(self, content: bytes) -> None:
        """Send bytes, until the other side has enough."""
        for start in range(0, len(content), CHUNK_BYTES):
            self.handler.wfile.write(content[start : start + CHUNK_BYTES])
            self.sent_bytes += len(content[start : start + CHUNK_BYTES])

    def answer(self, status: int, content: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        """Send a whole answer."""
        self.head(status, {"content-length": str(len(content)), **(headers or {})})
        self.body(content)


Answer: TypeAlias = Callable[[Exchange], None]


@dataclass(slots=True)
class ModelHost:
    """The server's address, its answers by path, and the requests it had."""

    url: str
    answers: dict[str, Answer] = field(default_factory=dict)
    requests: list[Exchange] = field(default_factory=list)

    @property
    def sent_bytes(self) -> int:
        """Bytes of all bodies."""
        return sum(request.sent_bytes for request in self.requests)

    def hosts(self, **access: Any) -> ModelHosts:
        """Access to this server alone, as every hub's and registry's mirror."""
        rules = host_rules(access.pop("public", ()), [self.url])
        return ModelHosts(
            access=Access(rules=rules, **{"duration_s": 10.0, "first_wait_s": 0.01, **access}),
            hub_urls={"huggingface": f"{self.url}/hf", "modelscope": f"{self.url}/ms"},
            ollama_url=f"{self.url}/ollama",
        )


def ranged(content: bytes, size_bytes: int | None = None, **headers: str) -> Answer:
    """A file that begins with `content` and is zeros up to `size_bytes`, served by ranges."""
    size = len(content) if size_bytes is None else size_bytes

    def answer(exchange: Exchange) -> None:
        if exchange.range is None:
            exchange.answer(200, content)
            return
        first, last = exchange.range
        if first >= size:
            exchange.answer(416, headers={"content-range": f"bytes */{size}"})
            return
        last = min(last, size - 1)
        part = content[first : last + 1]
        exchange.answer(
            206,
            part + bytes(last + 1 - first - len(part)),
            {"content-range": f"bytes {first}-{last}/{size}", **headers},
        )

    return answer


def not_found(exchange: Exchange) -> None:
    """There is nothing at this path."""
    exchange.answer(404)


def redirect(location: str, status: int = 302) -> Answer:
    """Send the caller elsewhere."""
    return lambda exchange: exchange.answer(status, headers={"location": location})


def document(content: object, **headers: str) -> Answer:
    """A JSON document."""
    return lambda exchange: exchange.answer(200, orjson.dumps(content), {"content-type": "application/json", **headers})


def failing(times: int, status: int, then: Answer, **headers: str) -> Answer:
    """Fail so many times before answering."""
    left = [times]

    def answer(exchange: Exchange) -> None:
        if left[0] > 0:
            left[0] -= 1
            exchange.answer(status, headers=headers)
        else:
            then(exchange)

    return answer


class Server(ThreadingHTTPServer):
    """Keeps what goes wrong in handlers, except that callers hang up."""

    daemon_threads = True

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.failures: list[BaseException | None] = []

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """Keep the failure."""
        failure = sys.exception()
        if not isinstance(failure, ConnectionError):
            self.failures.append(failure)


@contextmanager
def model_host(tls: ssl.SSLContext | None = None) -> Iterator[ModelHost]:
    """Serve on a free port of this machine until the end of the block, by https as models.test where `tls` is given."""
    host = ModelHost(url="")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            exchange = Exchange(self, self.path, {name.lower(): value for name, value in self.headers.items()})
            host.requests.append(exchange)
            answer = host.answers.get(self.path.partition("?")[0], not_found)
            # the reader hangs up as soon as it has the header
            with suppress(ConnectionError):
                answer(exchange)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = Server(("127.0.0.1", 0), Handler)
    host.url = f"http://127.0.0.1:{server.server_address[1]}"
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        host.url = f"https://models.test:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield host
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert server.failures == []
