"""The order of a batch: answers as their questions came, each asked once, a bounded number in hand."""

import tracemalloc
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest

from service.planning.batch.answering import Plans, Question
from service.planning.batch.order import FEW_QUESTIONS, Pace, groups_of, in_order
from service.planning.batch.processes import BatchProcesses
from service.planning.catalogues import BuiltinCatalogues
from service.planning.planner import Planner

PACE = Pace(window=FEW_QUESTIONS, group=5, remembered=100)
ANSWER_BYTES = 10_000


def question(number: int) -> Question:
    """A question unlike any other, about one of three models."""
    return Question(f"model {number % 3}", str(number).encode())


def long_answers(_: Plans, questions: Sequence[Question]) -> list[bytes]:
    """The question over and over."""
    return [(asked.text + b" ") * (ANSWER_BYTES // (len(asked.text) + 1)) for asked in questions]


@pytest.fixture
def processes() -> BatchProcesses:
    """What answers as few questions as a window has in this process."""
    return BatchProcesses(Planner(BuiltinCatalogues()), other_planner)


def other_planner() -> Planner:
    """A planner of another process, which a window of few questions never starts."""
    return Planner(BuiltinCatalogues())


def test_answers_come_in_the_order_of_their_questions(processes: BatchProcesses) -> None:
    """Groups by model do not show, and neither do blank rows in between."""
    asked = [None if number % 7 == 0 else question(number) for number in range(1, 200)]
    answers = list(in_order(asked, long_answers, processes, PACE))
    assert [answer is None for answer in answers] == [each is None for each in asked]
    assert [answer.split()[0] for answer in answers if answer] == [each.text for each in asked if each]


def test_an_equal_question_is_asked_once(processes: BatchProcesses) -> None:
    """As long as its answer is remembered."""
    seen: Counter[bytes] = Counter()

    def counted(plans: Plans, questions: Sequence[Question]) -> list[bytes]:
        seen.update(asked.text for asked in questions)
        return long_answers(plans, questions)

    answers = list(in_order([question(number % 10) for number in range(500)], counted, processes, PACE))
    assert len(answers) == 500
    assert seen == {str(number).encode(): 1 for number in range(10)}


def test_questions_about_one_model_go_together_and_most_of_them_first() -> None:
    """Groups are no larger than said, hold one model each, and every question once."""
    asked = [
        Question("few", b"1"),
        *(Question("many", str(number).encode()) for number in range(5)),
        Question("few", b"2"),
    ]
    groups = list(groups_of(asked, 3))
    assert [[each.model for each in group] for group in groups] == [["many"] * 3, ["many"] * 2, ["few"] * 2]
    assert sorted(each for group in groups for each in group) == sorted(asked)


def test_no_more_than_two_windows_are_read_ahead(processes: BatchProcesses) -> None:
    """Whoever takes answers slowly is not overtaken by who asks."""
    read = 0

    def questions() -> Iterator[Question]:
        nonlocal read
        for number in range(1000):
            read += 1
            yield question(number)

    for taken, _ in enumerate(in_order(questions(), long_answers, processes, PACE)):
        assert read <= taken + 2 * PACE.window


def peak_bytes(count: int, processes: BatchProcesses) -> int:
    """The most memory that is held while so many different questions are answered, and the answers thrown away."""
    tracemalloc.start()
    try:
        for _ in in_order(map(question, range(count)), long_answers, processes, PACE):
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_number_of_questions(processes: BatchProcesses) -> None:
    """Ten times as many questions need no more memory: only so many answers are remembered."""
    few, many = peak_bytes(1_000, processes), peak_bytes(10_000, processes)
    assert many < 1.1 * few
    assert many < 2 * ANSWER_BYTES * (PACE.remembered + 2 * PACE.window)
