"""Words that are left of a question, cut into the names of models and cards they hold."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from service.shells.slack.names import Names
from service.shells.slack.phrases import COUNTS

MODEL, CARD, UNREAD = "model", "card", "unread"
MOST_WORDS: Final = 8
# more than any number of pieces, so that as few words as can be stay unread
_UNREAD_COST: Final = 100

_WORD = re.compile(r"[^\s|,;+&()]+(?:(?<=[A-Za-z])\+(?=\s|$))?")
_BREAK = re.compile(r"[|,;+&()]")
_JOINTS_TEXT: Final = (
    "on with and plus using use at in for to of the will does do can could would i we it my our run runs running fit "
    "fits how fast is what about if please rig gpu gpus card cards model hi hey hello tokens token have has per each "
    "this that them together users be across what's whats"
)
# words that join names and are none
JOINTS: Final = frozenset(_JOINTS_TEXT.split())
_COUNT_WORDS: Final = "|".join(COUNTS)
_COUNTED = (
    re.compile(r"(?P<count>\d{1,3})\s*[x*]\s*(?P<name>\S.*)", re.IGNORECASE),
    re.compile(r"(?P<count>\d{1,2})\s+(?P<name>\S.*)"),
    re.compile(r"x\s?(?P<count>\d{1,3})\s+(?P<name>\S.*)", re.IGNORECASE),
    re.compile(r"(?P<name>.*\S)(?:\s+x\s?|(?<=\d)[x*]\s?)(?P<count>\d{1,3})", re.IGNORECASE),
    re.compile(rf"(?P<count>{_COUNT_WORDS})\s+(?:x\s+)?(?P<name>\S.*)", re.IGNORECASE),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Consecutive words of the line from `start` to `end`.

    name: as the catalogue has it, or as it was said where it is unread; after_on: whether "on" stands before it.
    """

    kind: str
    start: int
    end: int
    name: str
    count: int = 1
    is_counted: bool = False
    after_on: bool = False


@dataclass(frozen=True, slots=True)
class _Word:
    start: int
    end: int
    text: str


def read_pieces(text: str, names: Names, quant: str | None) -> Iterator[Piece]:
    """Every piece of a text whose phrases are blanked, in order."""
    for words, after_on in _runs(text):
        for first in range(0, len(words), MOST_WORDS):
            yield from _cut(text, words[first : first + MOST_WORDS], names, quant, after_on=after_on)


def _runs(text: str) -> Iterator[tuple[Sequence[_Word], bool]]:
    """Words with nothing but spaces between them, and whether "on" came last before them."""
    run, after_on, end = list[_Word](), False, 0
    for match in _WORD.finditer(text):
        word = match[0].rstrip(".!?:")
        broken = _BREAK.search(text, end, match.start()) is not None
        joint = word.casefold() in JOINTS or not word
        if run and (broken or joint):
            yield run, after_on
            run = []
        if joint:
            after_on = word.casefold() == "on"
        else:
            run.append(_Word(match.start(), match.start() + len(word), word))
        end = match.end()
    if run:
        yield run, after_on


def _cut(text: str, words: Sequence[_Word], names: Names, quant: str | None, *, after_on: bool) -> Iterator[Piece]:
    """The cut with the fewest unread words and then the fewest pieces; unread words side by side are one piece."""
    best: list[tuple[int, list[Piece]]] = [(0, [])]
    for end in range(1, len(words) + 1):
        ways = []
        for start in range(end):
            span = text[words[start].start : words[end - 1].end]
            cost, pieces = best[start]
            piece = _named(span, words[start].start, names, quant, after_on=after_on)
            if piece is not None:
                ways.append((cost + 1, [*pieces, piece]))
            elif end - start == 1:
                ways.append((cost + _UNREAD_COST, [*pieces, _unread(span, words[start].start, after_on=after_on)]))
        best.append(min(ways, key=lambda way: way[0]))
    yield from _joined(text, best[-1][1])


def _named(span: str, start: int, names: Names, quant: str | None, *, after_on: bool) -> Piece | None:
    """The piece that a span is as a whole, None where it names nothing."""
    end = start + len(span)
    for count, said, is_counted in counted(span):
        if card := names.card_or_none(said):
            return Piece(
                kind=CARD, start=start, end=end, name=card, count=count, is_counted=is_counted,
                after_on=after_on,
            )  # fmt: skip
    name, written_quant = _parted(span)
    wanted = written_quant or quant
    if written_quant is not None and quant is not None:
        return None
    if names.is_model(name, wanted):
        return Piece(kind=MODEL, start=start, end=end, name=names.model(name, wanted), after_on=after_on)
    return None


def counted(span: str) -> Iterator[tuple[int, str, bool]]:
    """Every way to read a span as a number of cards and their name: how many, the name, whether a number was said."""
    yield 1, span, False
    for pattern in _COUNTED:
        if match := pattern.fullmatch(span):
            said = match["count"].casefold()
            yield COUNTS[said] if said in COUNTS else int(said), match["name"], True


def _parted(span: str) -> tuple[str, str | None]:
    name, colon, quant = span.rpartition(":")
    return (name, quant) if colon and name and not span.lower().startswith("sha256:") else (span, None)


def _unread(span: str, start: int, *, after_on: bool) -> Piece:
    return Piece(kind=UNREAD, start=start, end=start + len(span), name=span, after_on=after_on)


def _joined(text: str, pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Unread pieces side by side as one, with the number that stands in front of them."""
    waiting: Piece | None = None
    for piece in (*pieces, None):
        if piece is not None and piece.kind == UNREAD:
            first = waiting or piece
            waiting = Piece(
                kind=UNREAD, start=first.start, end=piece.end, name=text[first.start : piece.end],
                after_on=first.after_on,
            )  # fmt: skip
            continue
        if waiting is not None:
            yield _with_count(waiting)
            waiting = None
        if piece is not None:
            yield piece


def _with_count(piece: Piece) -> Piece:
    for count, name, is_counted in counted(piece.name):
        if is_counted and 1 <= count <= 999:
            return Piece(
                kind=UNREAD, start=piece.start, end=piece.end, name=name, count=count, is_counted=True,
                after_on=piece.after_on,
            )  # fmt: skip
    return piece
