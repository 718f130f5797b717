"""Connections to checked addresses only, none longer than the deadline."""

import socket
import ssl
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import httpcore2

from service.remote.addresses import is_public_address
from service.remote.deadline import Deadline
from service.remote.hosts import HostRules
from service.remote.problems import ForbiddenHost

Resolve: TypeAlias = Callable[[str, int], Sequence[str]]


def resolve_host(host: str, port: int) -> Sequence[str]:
    """Addresses of a host, from the system's resolver; raises OSError where it has none."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class CheckedNetwork(httpcore2.NetworkBackend):
    """Resolves a host once per connection, checks every address, and connects to one of the checked addresses.

    As no name is looked up again after the check, a name server that changes its mind gains nothing. TLS still
    verifies the host's name.
    """

    def __init__(self, rules: HostRules, deadline: Deadline, resolve: Resolve = resolve_host) -> None:
        self._rules = rules
        self._deadline = deadline
        self._resolve = resolve
        self._sockets = httpcore2.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ARG002 - the deadline is stricter
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        """Connect to the first address that answers; raises ForbiddenHost where any of them is not public."""
        addresses = self._checked_addresses(host, port)
        for address in addresses[:-1]:
            try:
                return self._connect(address, port, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return self._connect(addresses[-1], port, local_address, socket_options)

    def _connect(
        self,
        address: str,
        port: int,
        local_address: str | None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None,
    ) -> httpcore2.NetworkStream:
        stream = self._sockets.connect_tcp(
            address, port, self._deadline.patience_s() or _NO_TIME_S, local_address, socket_options
        )
        return TimedStream(stream, self._deadline)

    def _checked_addresses(self, host: str, port: int) -> Sequence[str]:
        try:
            addresses = self._resolve(host, port)
        except OSError as error:
            raise httpcore2.ConnectError(f"{host} has no address: {error.strerror or error}") from None
        if not addresses:
            raise httpcore2.ConnectError(f"{host} has no address")
        if not self._rules.is_private(host, port) and not all(map(is_public_address, addresses)):
            raise ForbiddenHost(f"{host} leads to an address outside the public internet.")
        return addresses

    def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ARG002
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,  # noqa: ARG002
    ) -> httpcore2.NetworkStream:
        """Refuse; no model host is a socket of this machine."""
        raise ForbiddenHost(f"{path} is a socket of this machine.")


class TimedStream(httpcore2.NetworkStream):
    """A connection whose every step ends by the deadline, however slowly the other side trickles."""

    def __init__(self, stream: httpcore2.NetworkStream, deadline: Deadline) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002
        """Read what there is."""
        return self._stream.read(max_bytes, self._patience_s(httpcore2.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002
        """Write all of `buffer`."""
        self._stream.write(buffer, self._patience_s(httpcore2.WriteTimeout))

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ARG002
    ) -> httpcore2.NetworkStream:
        """Turn to TLS, verifying `server_hostname`."""
        patience_s = self._patience_s(httpcore2.ConnectTimeout)
        return TimedStream(self._stream.start_tls(ssl_context, server_hostname, patience_s), self._deadline)

    def get_extra_info(self, info: str) -> Any:
        """Facts of the underlying connection."""
        return self._stream.get_extra_info(info)

    def _patience_s(self, timed_out: type[httpcore2.TimeoutException]) -> float:
        patience_s = self._deadline.patience_s()
        if patience_s <= 0:
            raise timed_out("the deadline has passed")
        return patience_s


# a socket's timeout of 0 means not to wait at all, with an error of another kind
_NO_TIME_S = 0.001
