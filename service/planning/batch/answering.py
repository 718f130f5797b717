"""Answers to groups of questions, as the processes of a batch give them."""

import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import orjson
from sqlalchemy.exc import SQLAlchemyError

from service.contract.cells import Cell
from service.contract.columns import request_of_cells
from service.contract.json_bytes import json_bytes
from service.contract.plan import Plan
from service.contract.problem import Problem, problem, problem_of
from service.contract.request import PlanRequest
from service.contract.validation import parse_request
from service.core.problems import PlanProblem
from service.planning.batch.layout import RESULT_COLUMNS
from service.planning.outages import DatabaseUnavailable
from service.planning.row import row_of_plan

log = logging.getLogger(__name__)

Answered = TypeVar("Answered")
ResultCells: TypeAlias = tuple[Cell, ...]
BLANK: ResultCells = (None,) * len(RESULT_COLUMNS)


class Plans(Protocol):
    """What answers questions."""

    def plan(self, request: PlanRequest, *, alone: bool = False) -> Plan:
        """Answer one; raises PlanProblem."""


class Question(NamedTuple):
    """One question as bytes that are equal where it is; model: by which questions are grouped."""

    model: str
    text: bytes


Answer: TypeAlias = Callable[[Plans, Sequence[Question]], Sequence[Any]]


def question_of_cells(cells: dict[str, Cell], *, decimal_comma: bool) -> Question:
    """The question of a table's row."""
    return Question(str(cells.get("model", "")), orjson.dumps([cells, decimal_comma], default=str))


class Unreachable(Exception):
    """The database does not answer: the same questions are to be asked again."""


def answer_cells(plans: Plans, questions: Sequence[Question], *, patient: bool = False) -> list[ResultCells]:
    """The cells of RESULT_COLUMNS for rows of a table.

    patient: raises Unreachable where the database fails, which else is the problem of a row.
    """
    return [_cells(plans, question.text, patient=patient) for question in questions]


def _cells(plans: Plans, text: bytes, *, patient: bool) -> ResultCells:
    cells, decimal_comma = orjson.loads(text)

    def row() -> ResultCells:
        plan = plans.plan(request_of_cells(cells, decimal_comma=decimal_comma), alone=True)
        return (*row_of_plan(plan).values(), None)

    return _answered(row, refused_cells, patient=patient)


def refused_cells(why: Problem) -> ResultCells:
    """The cells of a row that cannot be answered."""
    return (*BLANK[:-1], f"{why.title}: {why.detail}")


def answer_documents(plans: Plans, questions: Sequence[Question], *, patient: bool = False) -> list[bytes]:
    """`{"plan"}` or `{"problem"}` as JSON, for requests as JSON; patient: as for `answer_cells`."""
    return [_document(plans, question.text, patient=patient) for question in questions]


def _document(plans: Plans, text: bytes, *, patient: bool) -> bytes:
    def document() -> bytes:
        return b'{"plan":' + json_bytes(plans.plan(parse_request(text))) + b"}"

    return _answered(document, refused_document, patient=patient)


def refused_document(why: Problem) -> bytes:
    """The answer to a request that cannot be answered."""
    return b'{"problem":' + why.model_dump_json(exclude_defaults=True).encode() + b"}"


def _answered(answer: Callable[[], Answered], refused: Callable[[Problem], Answered], *, patient: bool) -> Answered:
    """The answer, or what stands in its place; a failure of one question is not one of the others."""
    try:
        return answer()
    except PlanProblem as refusal:
        if patient and isinstance(refusal, DatabaseUnavailable):
            raise Unreachable(refusal.detail) from None
        return refused(problem_of(refusal))
    except Exception as failure:
        if patient and isinstance(failure, SQLAlchemyError | Unreachable):
            # not the failure itself, of which a process cannot tell another
            raise Unreachable(str(failure)) from None
        log.exception("a question of a batch failed")
        return refused(problem("internal-error", "The service failed on this question; the cause is in its log."))
