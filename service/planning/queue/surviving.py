"""Answers in other processes, although a question may end the one that answers it."""

from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from service.planning.batch.answering import Answer, Question
from service.planning.batch.processes import BatchProcesses


def surviving_answers(
    processes: BatchProcesses, answer: Answer, questions: Sequence[Question], lost: Callable[[Question], Any]
) -> list[Any]:
    """The answers in the order of the questions; `lost` gives that of a question that ends its process, alone again.

    Where a process ends early the questions of its group are parted, each half in a process of its own, until the one
    that ended it is alone.
    """
    if not questions:
        return []
    try:
        return list(processes.answered_there(answer, questions))
    except BrokenProcessPool:
        return _parted(processes, answer, questions, lost)


def _parted(
    processes: BatchProcesses, answer: Answer, questions: Sequence[Question], lost: Callable[[Question], Any]
) -> list[Any]:
    try:
        return list(processes.answered_apart(answer, questions))
    except BrokenProcessPool:
        if len(questions) == 1:
            return [lost(questions[0])]
        middle = len(questions) // 2
        halves = (questions[:middle], questions[middle:])
        return [answered for half in halves for answered in _parted(processes, answer, half, lost)]
