"""Rows of a chunk as they are kept until they are answered."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import orjson

from service.planning.batch.answering import Question
from service.planning.queue.cell_text import cells_of, dumps
from service.planning.queue.kinds import Line
from service.store.batch_chunks import Chunk


def chunks_of(lines: Iterable[Line], rows: int) -> Iterator[Chunk]:
    """Chunks of `rows` rows, the last one of what is left, read as they are taken."""
    remaining = iter(lines)
    first_row = 0
    while some := list(islice(remaining, rows)):
        content = dumps([[line.kept, _texts(line.question)] for line in some])
        yield Chunk(first_row=first_row, rows=len(some), content=content)
        first_row += len(some)


def lines_of(chunk: Chunk) -> Sequence[Line]:
    """The rows of a chunk."""
    return [
        Line(cells_of(kept), None if question is None else Question(question[0], question[1].encode()))
        for kept, question in orjson.loads(chunk.content)
    ]


def _texts(question: Question | None) -> list[str] | None:
    return None if question is None else [question.model, question.text.decode()]
