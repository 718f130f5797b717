"""A line of words → PlanRequest, in any order; what is not understood is refused with lines that would be."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import unescape
from typing import Any, Final

from service.catalog.gpu_names import parse_count
from service.contract.model_reference import is_address
from service.contract.request import PlanRequest
from service.contract.validation import validate_request
from service.core.problems import InvalidRequest, PlanProblem
from service.shells.slack.names import Names
from service.shells.slack.phrases import Stated, read_phrases
from service.shells.slack.pieces import CARD, MODEL, Piece, read_pieces

LONGEST_TEXT: Final = 1000
MOST_CORRECTIONS: Final = 5

_LINK = re.compile(r"<((?:https?://)[^|>\s]+)(?:\|[^>]*)?>")
_MENTION = re.compile(r"<[@!#][^>]*>")
_ADDRESS = re.compile(r"(?:https?://|(?:hf\.co|huggingface\.co|modelscope\.cn|ollama\.com)/)[^\s|>]+")
_WATTS = re.compile(r"\d+(?:\.\d+)?k?w(?:atts?)?", re.IGNORECASE)
_OTHERWISE: Final = {"vs", "vs.", "versus", "or", "compare", "against"}
_FORMATTING = re.compile(r"(?<!\S)[*`~]+|[*`~]+(?!\S)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a line is not a question; `corrections` are lines that are."""

    detail: str
    corrections: tuple[str, ...] = ()


class Unread(Exception):
    """A line that cannot be read as a question."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.detail)
        self.refusal = refusal


@dataclass(slots=True, kw_only=True)
class _Found:
    """What the words name."""

    models: list[tuple[str | dict[str, str], Piece]] = field(default_factory=list)
    cards: list[str] = field(default_factory=list)


def normalised(text: str) -> str:
    """A message's text without Slack's mark-up, mentions and special signs."""
    text = _MENTION.sub(" ", _LINK.sub(r"\1", text))
    text = unescape(text).replace("\N{MULTIPLICATION SIGN}", "x").replace("\N{NO-BREAK SPACE}", " ")
    text = re.sub(r"@\s*(?=\d|max)", " at ", _FORMATTING.sub("", text))
    return " ".join(text.split())


def read_text(text: str, names: Names) -> PlanRequest:
    """The question that a line states; raises Unread."""
    line = normalised(text)
    if len(line) > LONGEST_TEXT:
        raise Unread(Refusal(detail=f"The question is longer than {LONGEST_TEXT} characters."))
    try:
        stated, address = _stated(line, names)
    except InvalidRequest as refused:
        raise Unread(Refusal(detail=refused.detail)) from None
    found = _found(line, stated, names, address)
    try:
        return validate_request(_request(line, stated, found))
    except PlanProblem as refused:
        raise Unread(Refusal(detail=refused.detail)) from None


def _stated(line: str, names: Names) -> tuple[Stated, str | None]:
    """The phrases, and the address of the model where one is given; it is blanked first, for it may hold any words."""
    match = _ADDRESS.search(line)
    address = match[0] if match and is_address(match[0]) else None
    if match and address:
        line = line[: match.start()] + "|" * (match.end() - match.start()) + line[match.end() :]
    return read_phrases(line, names.is_card), address


def _found(line: str, stated: Stated, names: Names, address: str | None) -> _Found:
    """Model and cards of the words that are left; raises Unread where a word is neither."""
    quant = stated.fields.get(("model", "quant"))
    found, unread = _Found(), list[Piece]()
    for piece in read_pieces(stated.text, names, quant):
        if piece.kind == MODEL:
            found.models.append((piece.name, piece))
        elif piece.kind == CARD:
            found.cards.append(piece.name if piece.count == 1 else f"{piece.count}x {piece.name}")
        else:
            unread.append(piece)
    if address:
        found.models.append(({"url": address}, Piece(kind=MODEL, start=0, end=0, name=address)))
    if unread:
        raise Unread(_refusal(line, unread[0], found, stated, names))
    return found


def _request(line: str, stated: Stated, found: _Found) -> dict[str, Any]:
    """The request in the contract's words; raises Unread where model or cards are missing or one too many."""
    if not found.models:
        raise Unread(Refusal(detail="Which model? For example: `llama-3.3-70b on 2x3090 at 32k`."))
    if len(found.models) > 1:
        pieces = [piece for _, piece in found.models if piece.end]
        corrections = tuple(_without(line, piece) for piece in pieces)
        raise Unread(Refusal(detail="One model at a time, please: which one?", corrections=corrections))
    alone = stated.fields.get(("choice", "host_alone"))
    if bool(found.cards) == bool(alone):
        raise Unread(Refusal(detail=_cards_missing(line) if not alone else "Cards, or the processor alone: say one."))
    request: dict[str, Any] = {
        "model": found.models[0][0],
        "rig": {"gpus": _limited(found.cards, stated.fields.get(("choice", "power_limit_w"))), **stated.part("rig")},
        "workload": stated.part("workload"),
        "engine": _engine(stated),
    }
    for part in ("psu", "host"):
        if fields := stated.part(part):
            request["rig"][part] = fields
    return request


def _limited(cards: list[str], power_limit_w: float | None) -> list[Any]:
    """The cards, each with its limit where one is stated."""
    if power_limit_w is None:
        return list(cards)
    counted = [parse_count(card) for card in cards]
    return [{"gpu": name, "count": count, "power_limit_w": power_limit_w} for count, name in counted]


def _cards_missing(line: str) -> str:
    return f"On which cards? For example: `{line[:200]} on 2x3090`, or `{line[:200]} on cpu only`."


def _engine(stated: Stated) -> dict[str, Any]:
    engine = stated.part("engine")
    fields = ("kv_cache_dtype",) if engine.get("name") == "vllm" else ("cache_type_k", "cache_type_v")
    cache_type = engine.pop("kv_type", None)
    return engine if cache_type is None else engine | dict.fromkeys(fields, cache_type)


def _refusal(line: str, piece: Piece, found: _Found, stated: Stated, names: Names) -> Refusal:
    """Why one piece is not understood, with the line as it would be with each close name in its place."""
    said = line[piece.start : piece.end]
    if _WATTS.fullmatch(said):
        ways = tuple(f"{line[: piece.end]} {word}{line[piece.end :]}" for word in ("psu", "each"))
        return Refusal(detail=f"Is {said} the power supply, or the limit of each card?", corrections=ways)
    if said.casefold() in _OTHERWISE:
        return Refusal(detail="One rig at a time: ask about each of them.")
    wants_model = not found.models and not piece.is_counted and not (piece.after_on and _has_digit(said))
    try:
        if wants_model:
            names.model(piece.name, stated.fields.get(("model", "quant")))
        else:
            names.card(piece.name)
    except PlanProblem as refused:
        is_leftover = bool(found.models and (found.cards or not _has_digit(said)))
        close = () if is_leftover and not piece.is_counted and not _has_digit(said) else refused.suggestions
        corrections = [_corrected(line, piece, name, stated) for name in close[:MOST_CORRECTIONS]]
        if found.models and found.cards and not piece.is_counted:
            corrections = [*corrections[: MOST_CORRECTIONS - 1], _without(line, piece)]
        detail = refused.detail if close else f"I do not understand {said!r}."
        return Refusal(detail=detail, corrections=tuple(corrections))
    return Refusal(detail=f"I do not understand {said!r}.")


def _corrected(line: str, piece: Piece, name: str, stated: Stated) -> str:
    """The line with another name in the place of a piece, and without its quant where the name brings one."""
    counted = f"{piece.count}x {name}" if piece.is_counted else name
    changes = [(piece.start, piece.end, counted)]
    if ":" in name and stated.quant_span is not None:
        changes.append((*stated.quant_span, ""))
    for start, end, text in sorted(changes, reverse=True):
        line = line[:start] + text + line[end:]
    return " ".join(line.split())


def _without(line: str, piece: Piece) -> str:
    return " ".join(f"{line[: piece.start]} {line[piece.end :]}".split())


def _has_digit(text: str) -> bool:
    return any(character.isdigit() for character in text)


def words_of_help() -> Iterator[str]:
    """Questions that show what can be said."""
    yield "llama-3.3-70b on 2x3090 at 32k"
    yield "qwen3-32b q8 on 5090 and 3090, max context, 1000w psu"
    yield "gpt-oss-120b with 4 x 3090 for 4 users, kv q8, 64gb ram"
    yield "llama-3.1-8b on vllm, 4090, 16k"
