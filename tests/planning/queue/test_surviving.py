"""Questions that end the process which answers them."""

import os
import signal
import time
from collections.abc import Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

from service.planning.batch.answering import Plans, Question
from service.planning.batch.processes import BatchProcesses
from service.planning.local import local_planner
from service.planning.queue.remembering import remembered_answers
from service.planning.queue.surviving import surviving_answers

GONE_WITHIN_S = 20.0


def answer_or_die(_: Plans, questions: Sequence[Question]) -> list[str]:
    """Answers; a poisoned question kills the process as a lack of memory does."""
    if any(question.text == b"poison" for question in questions):
        os.kill(os.getpid(), signal.SIGKILL)
    return [question.text.decode() for question in questions]


def own_process(_: Plans, questions: Sequence[Question]) -> list[int]:
    """The process that answers, for each question."""
    return [os.getpid() for _ in questions]


def test_a_poisoned_question_takes_no_other_with_it(processes: BatchProcesses) -> None:
    """It alone has no answer, the others have theirs in their places, and this process lives on."""
    texts = ["a", "b", "poison", "c", "d"]
    questions = [Question("", text.encode()) for text in texts]
    answers = surviving_answers(processes, answer_or_die, questions, lambda question: f"lost {question.text!r}")
    assert answers == ["a", "b", "lost b'poison'", "c", "d"]
    assert surviving_answers(processes, answer_or_die, questions[:2], str) == ["a", "b"]
    assert surviving_answers(processes, answer_or_die, [], str) == []


def test_processes_end_with_the_one_that_asks() -> None:
    """When it is killed, nothing of it stays behind and waits for questions for ever."""
    here, there = get_context("spawn").Pipe()
    asking = get_context("spawn").Process(target=_ask_and_wait, args=(there,))
    asking.start()
    assert here.poll(60)
    answering = here.recv()
    assert Path(f"/proc/{answering}").exists()
    asking.kill()
    asking.join()
    deadline = time.monotonic() + GONE_WITHIN_S
    while _lives(answering) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _lives(answering)


def test_answers_are_remembered_from_chunk_to_chunk() -> None:
    """Of the same job, up to a number of them; another job asks anew."""
    asked: list[str] = []

    def answer(_: Plans, questions: Sequence[Question]) -> list[str]:
        asked.extend(question.text.decode() for question in questions)
        return [f"answer {question.text.decode()}" for question in questions]

    a, b, c = (Question("", text) for text in (b"a", b"b", b"c"))
    plans = local_planner()
    assert remembered_answers("job 1", answer, 2, plans, [a, b]) == ["answer a", "answer b"]
    assert remembered_answers("job 1", answer, 2, plans, [b, c]) == ["answer b", "answer c"]
    assert remembered_answers("job 1", answer, 2, plans, [a]) == ["answer a"]
    assert remembered_answers("job 2", answer, 2, plans, [a]) == ["answer a"]
    assert asked == ["a", "b", "c", "a", "a"]


def _ask_and_wait(told: Connection) -> None:
    processes = BatchProcesses(local_planner(), local_planner, 1)
    told.send(processes.answered_there(own_process, [Question("", b"")])[0])
    time.sleep(3600)


def _lives(process_id: int) -> bool:
    try:
        state = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
