"""multipart/form-data as it comes: one part after the other, in bounded memory, nothing on disk."""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from service.core.problems import InvalidRequest

_SLICE_BYTES: Final = 64 * 1024
_PART_END: Final = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartHead:
    """What a part says of itself; file_name None for a field."""

    name: str
    file_name: str | None


class Part:
    """One part, to be read before the next is asked for."""

    def __init__(self, head: PartHead, next_piece: "Callable[[], bytes | None]") -> None:
        self.head = head
        self._next_piece = next_piece
        self._pending = b""
        self._ended = False

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes, b"" only at the end."""
        while not self._pending and not self._ended:
            piece = self._next_piece()
            self._ended = piece is _PART_END
            self._pending = piece or b""
        chunk, self._pending = self._pending[:size], self._pending[size:]
        return chunk

    def content(self) -> bytes:
        """The whole part, of a body whose length is bounded."""
        pieces = []
        while piece := self.read(_SLICE_BYTES):
            pieces.append(piece)
        return b"".join(pieces)

    def text(self, most_bytes: int) -> str:
        """The whole part as text; raises InvalidRequest where it is longer or no UTF-8."""
        content = b""
        while chunk := self.read(most_bytes + 1 - len(content)):
            content += chunk
            if len(content) > most_bytes:
                raise InvalidRequest(f"The field {self.head.name!r} is longer than {most_bytes} bytes.")
        try:
            return content.decode()
        except UnicodeDecodeError:
            raise InvalidRequest(f"The field {self.head.name!r} is not UTF-8.") from None

    def drain(self) -> None:
        """Pass over what was not read."""
        while self.read(_SLICE_BYTES):
            pass


class MultipartBody:
    """Parts of a body whose chunks `next_chunk` gives, b"" at the end.

    Raises InvalidRequest for a body that is no multipart/form-data or ends early.
    """

    def __init__(self, content_type: str, next_chunk: Callable[[], bytes]) -> None:
        _, options = parse_options_header(content_type)
        if not options.get(b"boundary"):
            raise InvalidRequest("The content type multipart/form-data lacks its boundary.")
        self._next_chunk = next_chunk
        self._unparsed = memoryview(b"")
        self._pieces: deque[PartHead | bytes | None] = deque()
        self._header_name = self._header_value = b""
        self._disposition = b""
        try:
            self._parser = MultipartParser(
                options[b"boundary"],
                {
                    "on_part_begin": self._begin_part,
                    "on_header_field": self._take_header_name,
                    "on_header_value": self._take_header_value,
                    "on_header_end": self._end_header,
                    "on_headers_finished": self._end_headers,
                    "on_part_data": lambda data, start, end: self._pieces.append(data[start:end]),
                    "on_part_end": lambda: self._pieces.append(_PART_END),
                },
            )
        except FormParserError as error:
            raise InvalidRequest(f"The body is no multipart/form-data: {error}.") from None

    def parts(self) -> Iterator[Part]:
        """The parts in their order; what is left of one is passed over when the next is asked for."""
        while self._fill():
            head = self._pieces.popleft()
            if isinstance(head, PartHead):
                part = Part(head, self._next_piece)
                yield part
                part.drain()

    def _next_piece(self) -> bytes | None:
        if not self._fill():
            raise InvalidRequest("The body ends inside a part of its multipart/form-data.")
        piece = self._pieces.popleft()
        if isinstance(piece, PartHead):
            raise InvalidRequest("A part of the multipart/form-data begins inside another.")
        return piece

    def _fill(self) -> bool:
        """Parse until there is a piece; False at the end of the body."""
        while not self._pieces:
            if not self._unparsed:
                self._unparsed = memoryview(self._next_chunk())
            if not self._unparsed:
                self._finish()
                return False
            content, self._unparsed = self._unparsed[:_SLICE_BYTES], self._unparsed[_SLICE_BYTES:]
            try:
                self._parser.write(bytes(content))
            except FormParserError as error:
                raise InvalidRequest(f"The body is no multipart/form-data: {error}.") from None
        return True

    def _finish(self) -> None:
        try:
            self._parser.finalize()
        except FormParserError:
            raise InvalidRequest("The body ends inside a part of its multipart/form-data.") from None

    def _begin_part(self) -> None:
        self._disposition = b""

    def _take_header_name(self, data: bytes, start: int, end: int) -> None:
        self._header_name += data[start:end]

    def _take_header_value(self, data: bytes, start: int, end: int) -> None:
        self._header_value += data[start:end]

    def _end_header(self) -> None:
        if self._header_name.lower() == b"content-disposition":
            self._disposition = self._header_value
        self._header_name = self._header_value = b""

    def _end_headers(self) -> None:
        _, options = parse_options_header(self._disposition)
        file_name = options.get(b"filename")
        head = PartHead(
            name=options.get(b"name", b"").decode("utf-8", "replace"),
            file_name=None if file_name is None else file_name.decode("utf-8", "replace"),
        )
        self._pieces.append(head)
