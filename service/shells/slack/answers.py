"""What is answered to a line, to a question kept in a button, and to a form."""

from urllib.parse import parse_qsl

import structlog
from sqlalchemy.exc import SQLAlchemyError

from service.contract.problem import problem_of
from service.contract.request import PlanRequest
from service.core.problems import PlanProblem
from service.planning.planner import Planner
from service.shells.slack.blocks import Message, help_message, plan_message, problem_message, refusal_message
from service.shells.slack.grammar import Refusal, Unread, normalised, read_text
from service.shells.slack.names import Names
from service.shells.web.question import read_question

log = structlog.get_logger(__name__)

_HELP = {"", "help", "?", "hilfe", "aide"}


def names_of(planner: Planner) -> Names:
    """The names of the planner's catalogues as they are now."""
    return Names(gpus=planner.catalogues.gpus, models=planner.catalogues.models)


def answer_text(planner: Planner, text: str, origin: str) -> Message:
    """Answer a line."""
    if normalised(text).casefold() in _HELP:
        return help_message()
    try:
        request = read_text(text, names_of(planner))
    except Unread as unread:
        return refusal_message(unread.refusal)
    except SQLAlchemyError as failure:
        return _not_ready(failure)
    return answer_request(planner, request, origin)


def answer_query(planner: Planner, query: str, origin: str, *, shared_by: str | None = None) -> Message:
    """Answer the question that a button keeps, which may be older than this release."""
    try:
        request = read_question(parse_qsl(query)).request()
    except PlanProblem as refused:
        return refusal_message(Refusal(detail=f"This button's question is not one any more: {refused.detail}"))
    return answer_request(planner, request, origin, shared_by=shared_by)


def answer_request(planner: Planner, request: PlanRequest, origin: str, *, shared_by: str | None = None) -> Message:
    """Answer a question."""
    try:
        plan = planner.plan(request)
    except PlanProblem as refused:
        return problem_message(request, problem_of(refused))
    except SQLAlchemyError as failure:
        return _not_ready(failure)
    return plan_message(request, plan, origin, shared_by=shared_by)


def _not_ready(failure: SQLAlchemyError) -> Message:
    log.error("the database failed", path="/slack", error=str(failure))
    return refusal_message(Refusal(detail="The database does not answer; ask again in a while."))
