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

from service.planning.process import seldom_collect
from service.shells.cli.lines import Line, answer

Group: TypeAlias = Sequence[Line]
Answered: TypeAlias = Iterable[tuple[int, bytes]]
"""Numbers of lines, and their answers."""

# a forked process has everything that is imported; where there is no fork each one starts anew
_FORKS = "fork" in get_all_start_methods()
_CONTEXT = get_context("fork") if _FORKS else get_context("spawn")
_GROUPS_PER_WORKER = 4


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
        for answered in self._answered(deque(_groups(lines, self._count * _GROUPS_PER_WORKER))):
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

    def _answered(self, groups: deque[Group]) -> Iterator[Answered]:
        """Groups as they are answered, in any order."""
        busy: dict[Connection, Group] = {}
        while groups or busy:
            for connection in [each for each in self._processes if each not in busy]:
                if groups and self._sent(connection, groups[0]):
                    busy[connection] = groups.popleft()
            if not busy:  # no process is left
                yield _answered_here(groups.popleft())
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


def _groups(lines: Sequence[Line], count: int) -> Iterator[Group]:
    """Lines about one model together, since much is remembered per model; about `count` groups or more."""
    most = -(-len(lines) // count)
    by_model: dict[str, list[Line]] = {}
    for line in lines:
        by_model.setdefault(_model_of(line.text), []).append(line)
    for group in by_model.values():
        for first in range(0, len(group), most):
            yield group[first : first + most]


def _model_of(text: bytes) -> str:
    """The model that a line names, empty where it names none."""
    try:
        request = orjson.loads(text)
    except orjson.JSONDecodeError:
        return ""
    return str(request.get("model")) if isinstance(request, dict) else ""


def _work(connection: Connection, inherited: Sequence[Connection]) -> None:
    """Answer groups until the other end is closed; an interrupt is for the process that started this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    seldom_collect()
    for other in inherited:
        other.close()
    while True:
        try:
            group = connection.recv()
        except EOFError:
            return
        connection.send([answer(Line(*line)) for line in group])
