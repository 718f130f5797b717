"""Answers that a process remembers from chunk to chunk of the same job."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from service.planning.batch.answering import Answer, Plans, Question

_MOST_JOBS: Final = 4
_Answers: TypeAlias = OrderedDict[Question, Any]
_remembered: OrderedDict[str, _Answers] = OrderedDict()


def remembered_answers(job: str, answer: Answer, most: int, plans: Plans, questions: Sequence[Question]) -> list[Any]:
    """The answers to different questions, those that this process gave to the same job before as they were.

    most: answers that are remembered of a job; those of the last few jobs are.
    """
    known = _remembered.setdefault(job, OrderedDict())
    _remembered.move_to_end(job)
    while len(_remembered) > _MOST_JOBS:
        _remembered.popitem(last=False)
    new = [question for question in questions if question not in known]
    known.update(zip(new, answer(plans, new), strict=True))
    answers = [known[question] for question in questions]
    while len(known) > most:
        known.popitem(last=False)
    return answers
