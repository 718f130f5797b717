"""The way of requests over the checked network."""

import logging
import ssl
from collections.abc import Iterable, Iterator
from functools import cache
from typing import cast

import httpcore2
import httpx2

from service.remote.network import CheckedNetwork

# at lower levels they tell whole addresses and headers, with the signatures of storage in them
for _name in ("httpx2", "httpcore2"):
    logging.getLogger(_name).setLevel(logging.WARNING)


@cache
def trusted_certificates() -> ssl.SSLContext:
    """What the system, or SSL_CERT_FILE, trusts; read once, as that takes a tenth of a second."""
    return httpx2.create_ssl_context()


class CheckedTransport(httpx2.BaseTransport):
    """Sends httpx2 requests over connections of a CheckedNetwork; no proxy, no other way out.

    Raises httpcore2's exceptions as they are.
    """

    def __init__(self, network: CheckedNetwork, tls: ssl.SSLContext) -> None:
        self._pool = httpcore2.ConnectionPool(ssl_context=tls, network_backend=network, max_connections=4)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request; the body of the answer is read as it is consumed."""
        answer = self._pool.handle_request(
            httpcore2.Request(
                method=request.method,
                url=httpcore2.URL(
                    scheme=request.url.raw_scheme,
                    host=request.url.raw_host,
                    port=request.url.port,
                    target=request.url.raw_path,
                ),
                headers=request.headers.raw,
                content=cast("Iterable[bytes]", request.stream),
                extensions=request.extensions,
            )
        )
        return httpx2.Response(
            answer.status,
            headers=answer.headers,
            stream=_Body(cast("Iterable[bytes]", answer.stream)),
            extensions=answer.extensions,
        )

    def close(self) -> None:
        """Close every connection."""
        self._pool.close()


class _Body(httpx2.SyncByteStream):
    def __init__(self, stream: Iterable[bytes]) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        yield from self._stream

    def close(self) -> None:
        close = getattr(self._stream, "close", None)
        if close is not None:
            close()
