"""Heads of requests that do not end."""

from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.contract.problem import MEDIA_TYPE, problem

LONGEST_HEAD_BYTES: Final = 64 * 1024
"""Request line and header fields; what the system hands over at once may be a little more."""


class LimitedHead(HttpToolsProtocol):
    """One connection whose requests state their address and header fields in few bytes, else it is closed with 431.

    The parser keeps the part of a head that it has until the rest comes, however long.
    Source: RFC 6585, 5 (431); httptools 0.9, parser.pyx (_on_header_value joins without end).
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._head_bytes = 0
        self._is_in_head = False

    def on_message_begin(self) -> None:
        """Count from here."""
        super().on_message_begin()
        self._is_in_head = True
        self._head_bytes = 0

    def on_headers_complete(self) -> None:
        """Count no more."""
        self._is_in_head = False
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        """Read, and refuse a head that goes on after the most that is read of one."""
        super().data_received(data)
        if self._is_in_head:
            self._head_bytes += len(data)
            if self._head_bytes > LONGEST_HEAD_BYTES and not self.transport.is_closing():
                self.transport.write(_answer())
                self.transport.close()


def _answer() -> bytes:
    refusal = problem("header-too-large", f"Address and header fields are longer than {LONGEST_HEAD_BYTES} bytes.")
    body = refusal.model_dump_json(exclude_defaults=True).encode()
    head = f"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: {MEDIA_TYPE}\r\n"
    return head.encode() + b"content-length: %d\r\nconnection: close\r\n\r\n" % len(body) + body
