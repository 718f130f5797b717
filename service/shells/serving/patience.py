"""Connections that keep the service waiting: each may take only so long to ask, to send and to read.

A request that never comes costs nothing but its connection, which is closed; one that stops in the middle is answered
with 408. Source of the rule for bodies: Apache HTTP Server 2.4, mod_reqtimeout (`body=30,MinRate=500`).
"""

import asyncio
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from service.contract.problem import MEDIA_TYPE, problem
from service.shells.serving.heads import LimitedHead

if TYPE_CHECKING:
    from service.settings import Settings

# a body earns a second for so many bytes, so that a large one over a slow line is read to its end
BODY_BYTES_PER_S: Final = 500
# probes of a peer that says nothing: after so long, so often, so many times; then it is gone
_PROBES: Final = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a client may take, in seconds: for a request's head, for its body, and to read what is sent to it."""

    head_s: float
    body_s: float
    reading_s: float

    @classmethod
    def of(cls, settings: "Settings") -> "Patience":
        """What the settings say."""
        return cls(head_s=settings.request_head_s, body_s=settings.request_body_s, reading_s=settings.response_read_s)


class LimitedProtocol(LimitedHead):
    """One connection, with a timer for what it waits for now: a head, a body, or a reader.

    The application's lifespan says for how long, in the state that it gives the server: `patience`.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.patience: Patience = self.app_state["patience"]
        self._head_timer: asyncio.TimerHandle | None = None
        self._body_timer: asyncio.TimerHandle | None = None
        self._reader_timer: asyncio.TimerHandle | None = None
        self._body_began_s = 0.0
        self._body_bytes = 0
        self._has_begun = False
        self._closes_soon = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first head, and let the system find out when the peer is gone."""
        super().connection_made(transport)
        _probe_peer(transport)
        self._head_timer = self.loop.call_later(self.patience.head_s, self._head_is_late)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing."""
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        for timer in (self._head_timer, self._body_timer, self._reader_timer):
            if timer is not None:
                timer.cancel()

    def on_message_begin(self) -> None:
        """Wait for the rest of a head."""
        super().on_message_begin()
        self._has_begun = True
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.patience.head_s, self._head_is_late)

    def on_headers_complete(self) -> None:
        """Wait for the body."""
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        super().on_headers_complete()
        if self._closes_soon:
            self.cycle.keep_alive = False
        self._body_bytes = 0
        self._body_began_s = self.loop.time()

    def on_body(self, body: bytes) -> None:
        """Count what came."""
        self._body_bytes += len(body)
        super().on_body(body)

    def data_received(self, data: bytes) -> None:
        """Read, and wait for the rest of a body whose end was not in it."""
        super().data_received(data)
        if self._is_idle():
            if self._head_timer is None and self.timeout_keep_alive_task is None:
                # an empty line, which begins no request
                self._head_timer = self.loop.call_later(self.patience.head_s, self._head_is_late)
        elif self.cycle.more_body and self._body_timer is None:
            self._body_timer = self.loop.call_later(self.patience.body_s, self._body_is_late)

    def on_message_complete(self) -> None:
        """Wait for no more of the body."""
        super().on_message_complete()
        if self._body_timer is not None:
            self._body_timer.cancel()
            self._body_timer = None

    def pause_writing(self) -> None:
        """Wait for the reader."""
        super().pause_writing()
        self._reader_timer = self.loop.call_later(self.patience.reading_s, self.transport.abort)

    def resume_writing(self) -> None:
        """The reader has read."""
        super().resume_writing()
        if self._reader_timer is not None:
            self._reader_timer.cancel()
            self._reader_timer = None

    def shutdown(self) -> None:
        """End after the answer under way; one whose head is being sent now gets its answer too."""
        self._closes_soon = True
        if not (self._is_idle() and self._head_timer is not None and self._has_begun):
            super().shutdown()

    def _is_idle(self) -> bool:
        """Whether nothing was asked yet, or everything is answered."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is None or cycle.response_complete

    def _head_is_late(self) -> None:
        self._head_timer = None
        if not self._is_idle():
            # the head of a request behind one that is still being answered is not read meanwhile
            self._head_timer = self.loop.call_later(self.patience.head_s, self._head_is_late)
        elif not self.transport.is_closing():
            self.transport.close()

    def _body_is_late(self) -> None:
        self._body_timer = None
        cycle = self.cycle
        if not cycle.more_body or self._is_idle() or self.transport.is_closing():
            return
        earned_s = self.patience.body_s + self._body_bytes / BODY_BYTES_PER_S
        left_s = self._body_began_s + earned_s - self.loop.time()
        if self.flow.read_paused:
            # it is the service that does not read
            left_s = max(left_s, 1.0)
        if left_s > 0:
            self._body_timer = self.loop.call_later(left_s, self._body_is_late)
            return
        if not cycle.response_started:
            self.transport.write(_late_answer())
        cycle.disconnected = True
        cycle.message_event.set()
        self.transport.close()


def _late_answer() -> bytes:
    late = problem("request-timeout", "The rest of the request did not come in time.")
    body = late.model_dump_json(exclude_defaults=True).encode()
    head = f"HTTP/1.1 408 Request Timeout\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\n"
    return head.encode() + b"connection: close\r\n\r\n" + body


def _probe_peer(transport: asyncio.Transport) -> None:
    connection: socket.socket | None = transport.get_extra_info("socket")
    if connection is None or connection.family not in (socket.AF_INET, socket.AF_INET6):
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _PROBES:
        option = getattr(socket, name, None)
        if option is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
