"""A file of another host as a stream that asks for more bytes as they are read."""

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Final, Self, TypeAlias

import httpx2

from service.core.problems import UnknownModel
from service.core.units import MIB
from service.remote.content_range import ContentRange, read_content_range
from service.remote.problems import ModelHostUnavailable, Unauthorized, UnreadableRemoteModel
from service.remote.retries import Transient, persistently, transport_failures
from service.remote.session import HostSession

RANGE_BYTES: Final = (1 * MIB, 4 * MIB, 16 * MIB)
"""Bytes asked for at a time: a small header takes one request, a long vocabulary a few."""

OnBytes: TypeAlias = Callable[[int, int | None], None]


def _ignore(_read_bytes: int, _file_bytes: int | None) -> None:
    """Tell nobody."""


class RemoteFile:
    """Bytes of `url` from the first on, by growing ranges; no more is sent than the range that is being read.

    size_bytes: of the whole file, None where the host does not say. on_bytes: told how many bytes came
    so far, of how many.
    Every method raises PlanProblem.
    """

    def __init__(self, session: HostSession, url: httpx2.URL, on_bytes: OnBytes = _ignore) -> None:
        self.url = url
        self.size_bytes: int | None = None
        self._session = session
        self._on_bytes = on_bytes
        # where redirects led; signed addresses of storage expire, then it is `url` again
        self._nearest = url
        self._etag: str | None = None
        self._position = 0
        self._range_end = 0
        self._ranges_read = 0
        self._answer: httpx2.Response | None = None
        self._chunks: Iterator[bytes] = iter(())
        self._pending = self._next_chunk()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End what is being sent."""
        if self._answer is not None:
            self._answer.close()
            self._answer = None

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes, b"" only at the end of the file."""
        if not self._pending:
            self._pending = self._next_chunk()
        chunk, self._pending = self._pending[:size], self._pending[size:]
        return chunk

    def _next_chunk(self) -> bytes:
        if self._position == self.size_bytes:
            return b""
        try:
            chunk = persistently(self._try_next_chunk, self._session.deadline, self._session.access.first_wait_s)
        except BaseException:
            self.close()
            raise
        self._on_bytes(self._position, self.size_bytes)
        return chunk

    def _try_next_chunk(self) -> bytes:
        if self._answer is None:
            self._ask()
        try:
            with transport_failures(self._nearest.host):
                chunk = next(self._chunks, b"")
            self._take(chunk)
        except Transient:
            self.close()
            self._nearest = self.url
            raise
        return chunk

    def _take(self, chunk: bytes) -> None:
        host = self._nearest.host
        if not chunk:
            raise Transient(ModelHostUnavailable(f"{host} stops sending before the end of the range it announced."))
        self._position += len(chunk)
        if self._position > self._range_end:
            raise UnreadableRemoteModel(f"{host} sends more bytes than it announced.")
        if self._position == self._range_end:
            self._ranges_read += 1
            self.close()

    def _ask(self) -> None:
        step_bytes = RANGE_BYTES[min(self._ranges_read, len(RANGE_BYTES) - 1)]
        last_byte = self._position + step_bytes - 1
        if self.size_bytes is not None:
            last_byte = min(last_byte, self.size_bytes - 1)
        answer = self._open({"range": f"bytes={self._position}-{last_byte}"})
        try:
            sent = read_content_range(answer, self._position, last_byte)
            self._refuse_change(answer, sent)
        except BaseException:
            answer.close()
            raise
        self._answer, self._nearest = answer, answer.url
        self._chunks = answer.iter_raw()
        self._range_end = sent.last_byte + 1

    def _open(self, headers: dict[str, str]) -> httpx2.Response:
        try:
            return self._session.open(self._nearest, headers)
        except (Unauthorized, UnknownModel) as expired:
            if self._nearest == self.url:
                raise
            self._nearest = self.url
            raise Transient(expired) from None
        except Transient:
            self._nearest = self.url
            raise

    def _refuse_change(self, answer: httpx2.Response, sent: ContentRange) -> None:
        """Keep the size and the tag of the file, or find them changed."""
        etag = answer.headers.get("etag")
        if self._position == 0:
            self.size_bytes, self._etag = sent.size_bytes, etag
        elif (sent.size_bytes, etag) != (self.size_bytes, self._etag):
            raise UnreadableRemoteModel(f"The file at {self.url.host} changed while it was read. Try again.")
