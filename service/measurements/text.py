"""A text that benchmark programs printed into, by lines."""

from bisect import bisect_right
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Sequence
from dataclasses import dataclass, field


def decoded(raw: bytes) -> str:
    """Bytes of a file as text: UTF-8, UTF-16 as PowerShell redirects output, or one character a byte."""
    if raw.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return raw.decode("utf-16", errors="replace")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


@dataclass(frozen=True, slots=True)
class Text:
    """A text with the offsets of its lines; lines are counted from 0 here."""

    content: str
    lines: Sequence[str] = field(init=False)
    starts: Sequence[int] = field(init=False)

    def __post_init__(self) -> None:
        pieces = self.content.split("\n")
        starts, offset = [], 0
        for piece in pieces:
            starts.append(offset)
            offset += len(piece) + 1
        object.__setattr__(self, "lines", tuple(piece.rstrip("\r") for piece in pieces))
        object.__setattr__(self, "starts", tuple(starts))

    def line_at(self, offset: int) -> int:
        """Number of the line that holds a character."""
        return bisect_right(self.starts, offset) - 1
