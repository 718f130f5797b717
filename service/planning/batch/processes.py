"""Processes that answer groups of questions, started for the first large batch and kept for the next."""

import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from threading import Lock, Thread
from typing import Any

from service.planning.batch.answering import Answer, Plans, Question
from service.planning.process import processors, seldom_collect

_plans: Plans | None = None


class BatchProcesses:
    """Answers groups of questions side by side; safe to share between threads.

    here: answers in this process what is too little for others; prepare: makes what answers in each of `count`
    processes, must be a function of a module or a partial of one.
    """

    def __init__(self, here: Plans, prepare: Callable[[], Plans], count: int | None = None) -> None:
        self._here = here
        self._prepare = prepare
        self.count = count or processors()
        self._pool: ProcessPoolExecutor | None = None
        self._changing = Lock()

    def submit(self, answer: Answer, group: Sequence[Question]) -> "Group":
        """Have a group answered in another process."""
        pool = self._started()
        try:
            return Group(self, answer, group, pool.submit(_answer_there, answer, group), pool)
        except (BrokenProcessPool, RuntimeError):
            self.broken(pool)
            return self.answered_here(answer, group)

    def answered_there(self, answer: Answer, group: Sequence[Question]) -> Sequence[Any]:
        """Answer a group in another process; raises BrokenProcessPool where it ends early, this one lives on."""
        pool = self._started()
        try:
            return pool.submit(_answer_there, answer, group).result()
        except BrokenProcessPool:
            self.broken(pool)
            raise

    def answered_apart(self, answer: Answer, group: Sequence[Question]) -> Sequence[Any]:
        """Answer a group in a process of its own; raises BrokenProcessPool where it ends early."""
        with self._new(1) as pool:
            return pool.submit(_answer_there, answer, group).result()

    def answered_here(self, answer: Answer, group: Sequence[Question]) -> "Group":
        """Answer a group in this process."""
        done: Future[Sequence[Any]] = Future()
        done.set_result(answer(self._here, group))
        return Group(self, answer, group, done, None)

    def close(self) -> None:
        """End the processes, whatever they are doing."""
        self._close(self._pool)

    def _close(self, pool: ProcessPoolExecutor | None) -> None:
        with self._changing:
            is_current = pool is self._pool
            if is_current:
                self._pool = None
        if pool is not None and is_current:
            processes = list(pool._processes.values())  # noqa: SLF001 - Python 3.14 has kill_workers for this
            pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.terminate()

    def broken(self, pool: ProcessPoolExecutor | None) -> None:
        """Start new processes for the next group, unless others of its time have noticed before."""
        self._close(pool)

    def _started(self) -> ProcessPoolExecutor:
        with self._changing:
            if self._pool is None:
                self._pool = self._new(self.count)
            return self._pool

    def _new(self, count: int) -> ProcessPoolExecutor:
        # a fork of a process with threads may hang, so that each starts anew
        return ProcessPoolExecutor(
            count, mp_context=get_context("spawn"), initializer=_start, initargs=(self._prepare,)
        )


class Group:
    """A group that is being answered."""

    def __init__(
        self,
        processes: BatchProcesses,
        answer: Answer,
        group: Sequence[Question],
        future: "Future[Sequence[Any]]",
        pool: ProcessPoolExecutor | None,
    ) -> None:
        self._processes = processes
        self._answer = answer
        self._group = group
        self._future = future
        self._pool = pool

    def result(self) -> Sequence[Any]:
        """The answers, by this process where the one that had them ended early."""
        try:
            return self._future.result()
        except BrokenProcessPool:
            self._processes.broken(self._pool)
            return self._processes.answered_here(self._answer, self._group).result()


def _start(prepare: Callable[[], Plans]) -> None:
    global _plans  # noqa: PLW0603 - what a process of a pool keeps between its tasks
    # an interrupt is for the process that asks, which ends this one
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()
    _plans = prepare()
    seldom_collect()


def _end_with_parent() -> None:
    """End when the process that asks was killed: it would wait for questions for ever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _answer_there(answer: Answer, group: Sequence[Question]) -> Sequence[Any]:
    if _plans is None:
        raise RuntimeError("the process has not started")
    return answer(_plans, group)
