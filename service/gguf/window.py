"""A forward-only window on the bytes of a header."""

from struct import Struct
from typing import Any, Protocol, TypeAlias

from service.core.problems import UnreadableModel
from service.gguf.byte_order import ByteOrder
from service.gguf.limits import ReadLimits
from service.gguf.problems import TruncatedHeader

_READ_AHEAD_BYTES = 256 * 1024


class Readable(Protocol):
    """Anything with the `read` of a binary file; short reads are fine, b"" is the end."""

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes, b"" only at the end."""


Source: TypeAlias = bytes | bytearray | memoryview | Readable


class HeaderWindow:
    """Bytes of a source from `offset_bytes` on, fetched as they are asked for and dropped once passed.

    Holds at most the value being read and a read-ahead of 256 KiB of a stream; bytes-like sources are
    used in place. `reading` names what is being read, for messages.
    """

    __slots__ = ("_limit_bytes", "_start", "_stream", "buffer", "position", "reading")

    def __init__(self, source: Source, limits: ReadLimits) -> None:
        self._stream: Readable | None = None
        self.buffer: bytes | bytearray | memoryview = b""
        if isinstance(source, bytes | bytearray | memoryview):
            self.buffer = source
        else:
            self._stream = source
        self.position = 0
        self.reading = "the magic"
        self._start = 0
        self._limit_bytes = limits.header_bytes

    @property
    def offset_bytes(self) -> int:
        """Offset in the source of the next byte to be read."""
        return self._start + self.position

    def require(self, count_bytes: int) -> None:
        """Have `count_bytes` from the position on in the buffer, or refuse."""
        self._stay_below_limit(count_bytes)
        missing_bytes = self.position + count_bytes - len(self.buffer)
        if missing_bytes <= 0:
            return
        missing_bytes -= self._fetch(missing_bytes)
        if missing_bytes > 0:
            raise TruncatedHeader(
                offset_bytes=self._start + len(self.buffer), missing_bytes=missing_bytes, reading=self.reading
            )

    def _stay_below_limit(self, count_bytes: int) -> None:
        if self.offset_bytes + count_bytes > self._limit_bytes:
            raise self.refusal(f"the header runs past {self._limit_bytes:,} bytes, more than any real model's")

    def _fetch(self, wanted_bytes: int) -> int:
        """Drop what was passed and read at least `wanted_bytes` more; the number read, less at the end."""
        if self._stream is None:
            return 0
        chunks = [bytes(self.buffer[self.position :])]
        read_bytes = 0
        while read_bytes < wanted_bytes:
            chunk = self._stream.read(max(_READ_AHEAD_BYTES, wanted_bytes - read_bytes))
            if not chunk:
                break
            chunks.append(chunk)
            read_bytes += len(chunk)
        self._start += self.position
        self.position = 0
        self.buffer = b"".join(chunks)
        return read_bytes

    def skip(self, count_bytes: int) -> None:
        """Pass over `count_bytes` without holding them."""
        self._stay_below_limit(count_bytes)
        while count_bytes > 0:
            step_bytes = min(count_bytes, max(_READ_AHEAD_BYTES, len(self.buffer) - self.position))
            self.require(step_bytes)
            self.position += step_bytes
            count_bytes -= step_bytes

    def unpack(self, layout: Struct) -> tuple[Any, ...]:
        """Values of one struct layout."""
        if self.position + layout.size > len(self.buffer):
            self.require(layout.size)
        values = layout.unpack_from(self.buffer, self.position)
        self.position += layout.size
        return values

    def text(self, order: ByteOrder, maximum_bytes: int) -> bytes:
        """Raw bytes of a GGUF string of at most `maximum_bytes`."""
        (length_bytes,) = self.unpack(order.u64)
        if length_bytes > maximum_bytes:
            raise self.refusal(
                f"{self.reading} has {length_bytes:,} bytes, more than the {maximum_bytes:,} allowed here"
            )
        end = self.position + length_bytes
        if end > len(self.buffer):
            self.require(length_bytes)
            end = self.position + length_bytes
        raw = bytes(self.buffer[self.position : end])
        self.position = end
        return raw

    def refusal(self, reason: str) -> UnreadableModel:
        """The problem for a header that makes no sense here."""
        return UnreadableModel(f"Not a readable GGUF header, near byte {self.offset_bytes:,}: {reason}.")
