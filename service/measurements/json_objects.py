"""JSON in a text: llama-bench -o json and jsonl, llama-batched-bench --output-format jsonl, vLLM's files.

llama-bench prints an array as its tests end, so one that was stopped lacks its end: objects are read one by one.
"""

import json
import re
from collections.abc import Mapping
from typing import Final

from service.measurements import batched_bench, llama_bench_rows, vllm_bench
from service.measurements.pieces import Piece
from service.measurements.runs import Run, Unread
from service.measurements.text import Text

BROKEN: Final = "begins JSON that does not end"
LLAMA_BENCH_FORMAT: Final = "llama-bench json"

_BEGIN: Final = re.compile(r"[\s\[,]*(?=\{)")
_ONLY_PUNCTUATION: Final = re.compile(r"[\s\[\],]+")
_MEMBER: Final = re.compile(r"\s*(?:\"|[\]},]+\s*$)")
_BETWEEN: Final = re.compile(r"[\s,\]]*")
_NO_LENGTHS: Final = "says neither how long requests were nor how many ran at once: send what vllm bench serve saves"
# printf writes these where JSON has no number
_NOT_A_NUMBER: Final = re.compile(r"(?<=[:\[,])(\s*)-?(nan|inf)(?:\([^)]*\))?(?=\s*[,\]}])", re.IGNORECASE)


def read_json(text: Text, at: int) -> Piece | None:
    """The object that begins at line `at`, or a line of brackets between objects; None for anything else."""
    if _ONLY_PUNCTUATION.fullmatch(text.lines[at]):
        return Piece(format="", end=at + 1)
    begin = _BEGIN.match(text.lines[at])
    if begin is None:
        return None
    piece = Piece(format="", end=at + 1)
    offset: int | None = text.starts[at] + begin.end()
    while offset is not None:
        offset = _read_object(piece, text, offset)
    return piece


def _read_object(piece: Piece, text: Text, offset: int) -> int | None:
    """Take one object; where the next one begins on the same line, its offset."""
    line = text.line_at(offset)
    try:
        document, end = json.JSONDecoder().raw_decode(text.content, offset)
    except (ValueError, RecursionError):
        members = (number for number in range(line + 1, len(text.lines)) if not _MEMBER.match(text.lines[number]))
        piece.end = next(members, len(text.lines))
        piece.unread.append(Unread(line=line + 1, text=text.lines[line][:200], reason=BROKEN))
        return None
    piece.end = max(piece.end, text.line_at(max(end - 1, offset)) + 1)
    _read_document(piece, document, line + 1)
    following = end + len(_BETWEEN.match(text.content, end)[0])  # type: ignore[index]
    same_line = text.line_at(following) == piece.end - 1
    if same_line and text.content[following : following + 1] == "{":
        return following
    left = text.content[end : text.starts[piece.end] if piece.end < len(text.starts) else None].strip(" \t\r\n,[]")
    if left and same_line:
        piece.unread.append(Unread(line=piece.end, text=left[:200], reason="follows JSON and is none"))
    return None


def with_numbers_as_json(content: str) -> str:
    """A text whose nan and inf are spelled as JSON's readers know them."""
    return _NOT_A_NUMBER.sub(_spelled, content)


def _spelled(match: re.Match[str]) -> str:
    return f"{match[1]}{'NaN' if match[2].lower() == 'nan' else 'Infinity'}"


def _read_document(piece: Piece, document: Mapping[str, object], line: int) -> None:
    shown = json.dumps(document)[:200]
    if document.keys() >= batched_bench.TELLING_KEYS:
        piece.format, piece.needs_context = batched_bench.JSONL_FORMAT, True
        runs = list(batched_bench.batched_runs(document, line))
    elif vllm_bench.is_vllm(document):
        piece.format = vllm_bench.FORMAT
        runs = list(vllm_bench.vllm_runs(document, line))
    elif llama_bench_rows.RATE_COLUMN in document:
        piece.format = LLAMA_BENCH_FORMAT
        setup = llama_bench_rows.setup_of(document)
        runs = [Run(setup=setup, figure=figure, line=line) for figure in llama_bench_rows.figures_of(document)]
    elif vllm_bench.is_latency(document):
        piece.unread.append(Unread(line=line, text=shown, reason=_NO_LENGTHS))
        return
    else:
        piece.unread.append(Unread(line=line, text=shown, reason="is JSON of no benchmark that is known here"))
        return
    if not runs:
        piece.unread.append(Unread(line=line, text=shown, reason="has no test with a rate"))
    piece.runs.extend(runs)
