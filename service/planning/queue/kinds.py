"""What is the same for every kind of upload: read into rows, answered row by row, written again with the answers."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from service.contract.cells import Cell
from service.contract.problem import Problem
from service.planning.batch.answering import Answer, Question
from service.planning.batch.limits import Limits
from service.store.tables import JsonObject


class Line(NamedTuple):
    """kept: what is given back of a row as it came; question: None where nothing stands in it."""

    kept: Sequence[Cell]
    question: Question | None


class Reading(NamedTuple):
    """layout: what is needed to write the rows again; row_count: how many there are."""

    layout: JsonObject
    row_count: int
    lines: Iterable[Line]


class Answered(NamedTuple):
    """A row as it came, and what was kept as its result."""

    kept: Sequence[Cell]
    result: bytes


Write: TypeAlias = Callable[[Iterable[Answered], Mapping[str, Any], str], Iterator[bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of upload.

    chunk_rows: rows that are answered and kept together; remembered: answers that a process keeps in memory. answer:
    gives results for questions, refused: the result of a question that cannot be answered, nothing: that of a row
    without one, is_refused: whether a result has a problem.
    write: rows, layout and the job's address to the bytes of the answer.
    """

    media_type: str
    file_name: str
    chunk_rows: int
    remembered: int
    read: Callable[[bytes, Limits], Reading]
    answer: Answer
    refused: Callable[[Problem], bytes]
    nothing: bytes
    is_refused: Callable[[bytes], bool]
    write: Write
