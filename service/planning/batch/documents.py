"""A JSON list of requests answered as a JSON list, as the answers come."""

import json
from collections.abc import Iterator, Mapping, Sequence

import orjson

from service.core.problems import InvalidRequest
from service.planning.batch.answering import Question, answer_documents
from service.planning.batch.limits import Limits
from service.planning.batch.order import DOCUMENTS, in_order
from service.planning.batch.processes import BatchProcesses


def read_documents(content: bytes, limits: Limits) -> Sequence[object]:
    """The requests of a list; raises InvalidRequest for what is no JSON list, TooLarge."""
    try:
        # unlike orjson this reads whole numbers of any size, for the contract to refuse
        requests = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"The request is not JSON: {error}.") from None
    if not isinstance(requests, list):
        raise InvalidRequest("Send a list of requests.")
    limits.check(len(requests))
    return requests


def answered_documents(requests: Sequence[object], processes: BatchProcesses) -> Iterator[bytes]:
    """The bytes of the list of answers in pieces."""
    questions = (_question(request) for request in requests)
    separator = b"["
    for index, answer in enumerate(in_order(questions, answer_documents, processes, DOCUMENTS)):
        yield separator + _with_instance(answer, index)
        separator = b","
    yield b"[]" if not requests else b"]"


def _question(request: object) -> Question:
    model = request.get("model") if isinstance(request, Mapping) else None
    return Question(str(model), json.dumps(request).encode())


def _with_instance(answer: bytes, index: int) -> bytes:
    """A problem with the place of its request; equal requests share all else."""
    if not answer.startswith(b'{"problem"'):
        return answer
    stated = orjson.loads(answer)
    stated["problem"]["instance"] = f"/plan/batch#/{index}"
    return orjson.dumps(stated)
