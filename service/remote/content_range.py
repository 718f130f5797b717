"""The Content-Range header of a partial answer (RFC 9110, 14.4)."""

import re
from dataclasses import dataclass

import httpx2

from service.remote.problems import UnreadableRemoteModel

_CONTENT_RANGE = re.compile(r"bytes (?P<first>\d{1,19})-(?P<last>\d{1,19})/(?P<size>\d{1,19}|\*)", re.IGNORECASE)
ADVICE = "Download the file and import it, or upload its first megabytes."


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentRange:
    """Bytes first_byte..last_byte of a file of `size_bytes`; None where the host does not say."""

    first_byte: int
    last_byte: int
    size_bytes: int | None


def read_content_range(answer: httpx2.Response, first_byte: int, last_byte: int) -> ContentRange:
    """The part of the file that an answer to a request for first_byte..last_byte holds: it, or the beginning of it.

    Raises UnreadableRemoteModel where the host ignored the range, or the answer contradicts the request or itself.
    """
    host = answer.url.host
    if answer.status_code != 206:
        raise UnreadableRemoteModel(
            f"{host} does not serve byte ranges, so the header cannot be read without the weights. {ADVICE}"
        )
    text = answer.headers.get("content-range", "")
    match = _CONTENT_RANGE.fullmatch(text.strip())
    if match is None:
        raise UnreadableRemoteModel(f"{host} does not say which bytes it sends (Content-Range {text[:80]!r}). {ADVICE}")
    sent = ContentRange(
        first_byte=int(match["first"]),
        last_byte=int(match["last"]),
        size_bytes=None if match["size"] == "*" else int(match["size"]),
    )
    beyond_end = sent.size_bytes is not None and sent.last_byte >= sent.size_bytes
    if sent.first_byte != first_byte or not first_byte <= sent.last_byte <= last_byte or beyond_end:
        raise UnreadableRemoteModel(f"{host} was asked for bytes {first_byte}-{last_byte} and sends {text!r}. {ADVICE}")
    length = answer.headers.get("content-length")
    if length is not None and length != str(sent.last_byte - sent.first_byte + 1):
        raise UnreadableRemoteModel(f"{host} says {text!r} and sends {length[:20]} bytes. {ADVICE}")
    return sent
