"""Answers in the order of their questions, each different question asked once, a bounded number at a time."""

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from service.planning.batch.answering import Answer, Question
from service.planning.batch.processes import BatchProcesses, Group

FEW_QUESTIONS: Final = 24
"""Up to so many are answered at once by this process: sooner than others have started."""

_GROUPS_PER_PROCESS: Final = 4
"""So many or more of a window, so that processes end together; fewer make each of them know fewer models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """window: questions read at a time; group: those sent to a process at once, or more; remembered: answers kept."""

    window: int
    group: int
    remembered: int


ROWS: Final = Pace(window=1024, group=24, remembered=20_000)
# a plan as JSON has some 30 KB
DOCUMENTS: Final = Pace(window=128, group=8, remembered=256)


def in_order(
    questions: Iterable[Question | None], answer: Answer, processes: BatchProcesses, pace: Pace
) -> Iterator[Any]:
    """The answer to each question, None for None; questions about one model go together.

    Two windows are in hand at a time, so that processes have work while answers are taken.
    """
    known: OrderedDict[Question, tuple[Group, int]] = OrderedDict()
    waiting: deque[list[tuple[Group, int] | None]] = deque()
    remaining = iter(questions)
    while window := list(islice(remaining, pace.window)):
        new = list(dict.fromkeys(question for question in window if question is not None and question not in known))
        for group in groups_of(new, max(pace.group, len(new) // (_GROUPS_PER_PROCESS * processes.count))):
            here = len(new) <= FEW_QUESTIONS
            asked = processes.answered_here(answer, group) if here else processes.submit(answer, group)
            known.update((question, (asked, at)) for at, question in enumerate(group))
        waiting.append([None if question is None else known[question] for question in window])
        while len(known) > pace.remembered:
            known.popitem(last=False)
        if len(waiting) > 1:
            yield from _taken(waiting.popleft())
    for places in waiting:
        yield from _taken(places)


def groups_of(questions: Sequence[Question], size: int) -> Iterator[list[Question]]:
    """Questions about one model together, since much is remembered per model; at most `size`, most of them first."""
    by_model: dict[str, list[Question]] = {}
    for question in questions:
        by_model.setdefault(question.model, []).append(question)
    for group in sorted(by_model.values(), key=len, reverse=True):
        for first in range(0, len(group), size):
            yield group[first : first + size]


def _taken(places: Iterable[tuple[Group, int] | None]) -> Iterator[Any]:
    for place in places:
        yield None if place is None else place[0].result()[place[1]]
