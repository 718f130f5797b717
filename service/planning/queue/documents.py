"""JSON lists and JSON Lines as uploads of a job: a result is `{"plan"}` or `{"problem"}`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from service.planning.batch.answering import Plans, Question, answer_documents, refused_document
from service.planning.batch.documents import line_pieces, list_pieces, read_documents, read_lines
from service.planning.batch.limits import Limits
from service.planning.batch.order import DOCUMENTS
from service.planning.queue.kinds import Answered, Kind, Line, Reading

# a plan as JSON has some 30 KB
_CHUNK_ROWS: Final = 25


def _read_list(content: bytes, limits: Limits) -> Reading:
    return _reading(read_documents(content, limits))


def _read_lines(content: bytes, limits: Limits) -> Reading:
    return _reading(read_lines(content, limits))


def _reading(questions: Sequence[Question]) -> Reading:
    return Reading({}, len(questions), (Line((), question) for question in questions))


def _answer(plans: Plans, questions: Sequence[Question]) -> list[bytes]:
    return answer_documents(plans, questions, patient=True)


def _is_refused(result: bytes) -> bool:
    return result.startswith(b'{"problem"')


def _write_list(rows: Iterable[Answered], _: Mapping[str, Any], address: str) -> Iterator[bytes]:
    return list_pieces((row.result for row in rows), address)


def _write_lines(rows: Iterable[Answered], _: Mapping[str, Any], address: str) -> Iterator[bytes]:
    return line_pieces((row.result for row in rows), address)


JSON_KIND: Final = Kind(
    media_type="application/json", file_name="plans.json", chunk_rows=_CHUNK_ROWS, remembered=DOCUMENTS.remembered,
    read=_read_list, answer=_answer, refused=refused_document,
    nothing=b"null", is_refused=_is_refused, write=_write_list,
)  # fmt: skip
JSONL_KIND: Final = Kind(
    media_type="application/jsonl", file_name="plans.jsonl", chunk_rows=_CHUNK_ROWS, remembered=DOCUMENTS.remembered,
    read=_read_lines, answer=_answer, refused=refused_document,
    nothing=b"null", is_refused=_is_refused, write=_write_lines,
)  # fmt: skip
