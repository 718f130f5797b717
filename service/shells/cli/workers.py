"""Processes that answer lines for this one, which answers by itself what one that ends early leaves undone."""

import gc
import signal
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import TypeAlias

import orjson

from service.planning.kept_graphs import write_kept_graphs
from service.planning.process import seldom_collect
from service.shells.cli.lines import Line, answer

Group: TypeAlias = Sequence[Line]
Answered: TypeAlias = Iterable[tuple[int, bytes]]
"""Numbers of lines, and their answers."""

# a forked process has everything that is imported; where there is no fork each one starts anew
_FORKS = "fork" in get_all_start_methods()
_CONTEXT = get_context("fork") if _FORKS else get_context("spawn")
# small enough that no process has much left when another has nothing, large enough that sending them costs little
_GROUP_LINES = 8


class Workers:
    """A number of processes, started with the first lines; `close` ends them, whatever they are doing."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._processes: dict[Connection, BaseProcess] = {}
        self._started = False

    def answers(self, lines: Sequence[Line]) -> Iterator[bytes]:
        """The answers to `lines`, in their order."""
        if not self._started:
            self._start()
        known: dict[int, bytes] = {}
        waiting = iter(lines)
        line = next(waiting, None)
        for answered in self._answered(Remaining(lines)):
            known.update(answered)
            while line is not None and line.number in known:
                yield known.pop(line.number)
                line = next(waiting, None)

    def close(self) -> None:
        """End all processes."""
        for connection, process in self._processes.items():
            process.terminate()
            connection.close()
        self._processes.clear()

    def _start(self) -> None:
        from service.contract import validation  # noqa: F401, PLC0415 - what is imported here is there in forks
        from service.planning.local import local_planner  # noqa: PLC0415

        local_planner()
        write_kept_graphs()  # by a thread that no fork should have
        sys.stdout.flush()
        gc.freeze()
        for _ in range(self._count):
            here, there = _CONTEXT.Pipe()
            inherited = (*self._processes, here) if _FORKS else ()
            process = _CONTEXT.Process(target=_work, args=(there, inherited), daemon=True)
            process.start()
            there.close()
            self._processes[here] = process
        self._started = True

    def _answered(self, remaining: "Remaining") -> Iterator[Answered]:
        """Groups as they are answered, in any order."""
        busy: dict[Connection, Group] = {}
        while busy or remaining:
            for connection in [each for each in self._processes if each not in busy]:
                group = remaining.take(connection)
                if group and self._sent(connection, group):
                    busy[connection] = group
                elif group:
                    yield _answered_here(group)
            if not busy:  # no process is left
                yield _answered_here(remaining.take(None))
                continue
            ready = wait(busy)
            for connection in [each for each in busy if each in ready]:
                yield self._received(connection, busy.pop(connection))

    def _sent(self, connection: Connection, group: Group) -> bool:
        try:
            connection.send(group)
        except OSError:
            self._drop(connection)
            return False
        return True

    def _received(self, connection: Connection, group: Group) -> Answered:
        """What a process answered; where it ended without, the same from this one."""
        try:
            return zip([line.number for line in group], connection.recv(), strict=True)
        except (EOFError, OSError):
            self._drop(connection)
            return _answered_here(group)

    def _drop(self, connection: Connection) -> None:
        self._processes.pop(connection).join(0)
        connection.close()


def _answered_here(group: Group) -> Answered:
    return [(line.number, answer(line)) for line in group]


class Remaining:
    """Lines that nobody answers yet, by model, since much is remembered per model.

    Each process stays with its model until all lines about it are taken, then goes on with the model that has most
    lines of those that nobody has begun, and at the end helps where most lines are left: none has nothing to do while
    another has much.
    """

    def __init__(self, lines: Sequence[Line]) -> None:
        by_model: dict[str, deque[Line]] = {}
        for line in lines:
            by_model.setdefault(_model_of(line.text), deque()).append(line)
        self._by_model = by_model
        self._unbegun = sorted(by_model, key=lambda model: len(by_model[model]))
        self._own: dict[object, str] = {}

    def __bool__(self) -> bool:
        return bool(self._by_model)

    def take(self, process: object) -> Group:
        """The next lines for a process, at most half of what is left where others are at the same model."""
        if not self._by_model:
            return ()
        model = self._own.get(process)
        if model not in self._by_model:
            model = self._next()
            self._own[process] = model
        left = self._by_model[model]
        shared = sum(each == model for each in self._own.values())
        most = min(_GROUP_LINES, -(-len(left) // shared))
        group = [left.popleft() for _ in range(min(most, len(left)))]
        if not left:
            del self._by_model[model]
        return group

    def _next(self) -> str:
        if self._unbegun:
            return self._unbegun.pop()
        return max(self._by_model, key=lambda model: len(self._by_model[model]))


def _model_of(text: bytes) -> str:
    """The model that a line names, empty where it names none."""
    try:
        request = orjson.loads(text)
    except orjson.JSONDecodeError:
        return ""
    return str(request.get("model")) if isinstance(request, dict) else ""


def _work(connection: Connection, inherited: Sequence[Connection]) -> None:
    """Answer groups until the other end is closed or closes this; an interrupt is for the process that started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    seldom_collect()
    for other in inherited:
        other.close()
    try:
        _answer_groups(connection)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        write_kept_graphs()


def _answer_groups(connection: Connection) -> None:
    while True:
        try:
            group = connection.recv()
        except EOFError:
            return
        connection.send([answer(Line(*line)) for line in group])
