"""JSON Lines of requests: as many as are there at the moment are one batch, each line gives one line."""

import io
import select
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from service.core.problems import PlanProblem

READ_BYTES = 1 << 20
# bounds what is held at a time; answers are about ten times as long as their questions
BATCH_LINES = 4096
BATCH_BYTES = 4 << 20


class Line(NamedTuple):
    """One request as it was read; `number` counts all lines from 1."""

    number: int
    text: bytes


def batches(stream: BinaryIO) -> Iterator[list[Line]]:
    """Lines that are there already, without waiting for more; blank ones are left out."""
    number, rest, ended = 1, b"", False
    while not ended:
        rest, ended = _read(stream, rest)
        lines = rest.split(b"\n")
        rest = b"" if ended else lines.pop()
        for first in range(0, len(lines), BATCH_LINES):
            batch = [Line(number + at, text) for at, text in enumerate(lines[first : first + BATCH_LINES], first)]
            yield [line for line in batch if line.text.strip()]
        number += len(lines)


def _read(stream: BinaryIO, rest: bytes) -> tuple[bytes, bool]:
    """What is there behind `rest`, at least one read of it, and whether it is the end."""
    pieces, size = [rest], 0
    while True:
        piece = stream.read1(READ_BYTES)  # type: ignore[attr-defined]
        pieces.append(piece)
        size += len(piece)
        if not piece or size >= BATCH_BYTES or not _has_more(stream):
            return b"".join(pieces), not piece


def _has_more(stream: BinaryIO) -> bool:
    """Whether another read would not wait, as far as can be told."""
    try:
        return bool(select.select([stream], [], [], 0)[0])
    except io.UnsupportedOperation:
        return True  # memory, which never waits
    except OSError:
        return False


def answer(line: Line) -> bytes:
    """The plan or the problem of one line, as a line without its end."""
    from service.contract.json_bytes import json_bytes  # noqa: PLC0415
    from service.contract.problem import problem_of  # noqa: PLC0415 - what plans need is imported when they are made
    from service.contract.validation import parse_request  # noqa: PLC0415
    from service.planning.local import local_planner  # noqa: PLC0415

    try:
        return b'{"plan":' + json_bytes(local_planner().plan(parse_request(line.text))) + b"}"
    except PlanProblem as refused:
        problem = problem_of(refused, instance=f"line {line.number}")
        return b'{"problem":' + problem.model_dump_json(exclude_defaults=True).encode() + b"}"
