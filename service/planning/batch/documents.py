"""Requests as a JSON list or as JSON Lines, answered as the same, as the answers come."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import orjson

from service.core.problems import InvalidRequest
from service.planning.batch.answering import Question, answer_documents
from service.planning.batch.limits import Limits
from service.planning.batch.order import DOCUMENTS, in_order
from service.planning.batch.processes import BatchProcesses

_ADDRESS: Final = "/plan/batch"


def read_documents(content: bytes, limits: Limits) -> Sequence[Question]:
    """The requests of a list; raises InvalidRequest for what is no JSON list, TooLarge."""
    try:
        # unlike orjson this reads whole numbers of any size, for the contract to refuse
        requests = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"The request is not JSON: {error}.") from None
    if not isinstance(requests, list):
        raise InvalidRequest("Send a list of requests.")
    limits.check(len(requests))
    return [_question(request, json.dumps(request).encode()) for request in requests]


def read_lines(content: bytes, limits: Limits) -> Sequence[Question]:
    """The requests of JSON Lines, blank ones left out; a line that is no JSON is a question that is refused.

    Raises InvalidRequest for what is not UTF-8, TooLarge.
    """
    try:
        content.decode()
    except UnicodeDecodeError:
        raise InvalidRequest("The lines are not UTF-8 text.") from None
    lines = [line for line in content.splitlines() if line.strip()]
    limits.check(len(lines))
    return [_question(_of_line(line), line) for line in lines]


def answered_documents(questions: Sequence[Question], processes: BatchProcesses) -> Iterator[bytes]:
    """The bytes of the list of answers in pieces."""
    return list_pieces(in_order(questions, answer_documents, processes, DOCUMENTS), _ADDRESS)


def answered_lines(questions: Sequence[Question], processes: BatchProcesses) -> Iterator[bytes]:
    """The bytes of the lines of answers in pieces."""
    return line_pieces(in_order(questions, answer_documents, processes, DOCUMENTS), _ADDRESS)


def list_pieces(answers: Iterable[bytes], address: str) -> Iterator[bytes]:
    """A JSON list of answers to what was sent to an address, in pieces."""
    separator = b"["
    for index, answer in enumerate(answers):
        yield separator + _with_instance(answer, f"{address}#/{index}")
        separator = b","
    yield b"[]" if separator == b"[" else b"]"


def line_pieces(answers: Iterable[bytes], address: str) -> Iterator[bytes]:
    """Answers to what was sent to an address, a line each."""
    return (_with_instance(answer, f"{address}#/{index}") + b"\n" for index, answer in enumerate(answers))


def _of_line(line: bytes) -> object:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return None


def _question(request: object, text: bytes) -> Question:
    model = request.get("model") if isinstance(request, Mapping) else None
    return Question(str(model), text)


def _with_instance(answer: bytes, instance: str) -> bytes:
    """A problem with the place of its request; equal requests share all else."""
    if not answer.startswith(b'{"problem"'):
        return answer
    stated = orjson.loads(answer)
    stated["problem"]["instance"] = instance
    return orjson.dumps(stated)
