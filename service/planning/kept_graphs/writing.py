"""Writes that wait for others, in a thread that ends when there are no more."""

import sqlite3
import time
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from typing import Final

from service.core.engines.llamacpp.compute.kept_graphs import Counts, GraphPieces, Sizes
from service.planning.kept_graphs.encoding import counts_to_bytes, pieces_to_bytes, sizes_to_bytes
from service.planning.kept_graphs.trouble import Trouble
from service.store.graph_file import GraphFile, GraphRow, SizesRow

# what is gathered before it is written, and the most that waits for that: a graph takes milliseconds to build
_GATHER_S: Final = 0.25
_MOST_WAITING: Final = 1024
# how exactly it is known when a graph was used last: who only reads hardly ever writes
_USE_S: Final = 3600


@dataclass(slots=True)
class _Waiting:
    """What is to be written; used: graphs that were read."""

    pieces: dict[bytes, GraphPieces] = field(default_factory=dict)
    sizes: dict[tuple[bytes, Counts], Sizes] = field(default_factory=dict)
    used: set[bytes] = field(default_factory=set)

    def __len__(self) -> int:
        return len(self.pieces) + len(self.sizes) + len(self.used)


class LaterWrites:
    """What a file is to keep, written a little later; safe to share between threads.

    reading: held by whoever reads the file, and here while a damaged one is deleted. What comes while too much waits
    is left out: it is built again.
    """

    def __init__(self, file: GraphFile, trouble: Trouble, reading: Lock) -> None:
        self._file, self._trouble, self._reading = file, trouble, reading
        self._changing, self._writing = Lock(), Lock()
        self._waiting = _Waiting()
        self._thread: Thread | None = None
        self._hurry = Event()

    def keep_pieces(self, key: bytes, pieces: GraphPieces) -> None:
        """Write what the buffers of a graph are made of."""
        with self._changing:
            if self._has_room():
                self._waiting.pieces[key] = pieces

    def keep_sizes(self, key: bytes, counts: Counts, sizes: Sizes) -> None:
        """Write the buffers of a graph for some counts."""
        with self._changing:
            if self._has_room():
                self._waiting.sizes[key, counts] = sizes

    def use(self, key: bytes, used_at_s: int) -> None:
        """Write that a graph was used now, where that says more than what is written."""
        if abs(time.time() - used_at_s) < _USE_S:
            return
        with self._changing:
            if self._has_room():
                self._waiting.used.add(key)

    def finish(self) -> None:
        """Write what waits, and let the thread end."""
        with self._changing:
            thread = self._thread
        self._hurry.set()
        if thread is not None:
            thread.join()
        self._write()

    def _has_room(self) -> bool:
        """Whether more may wait; a thread will write it."""
        if not self._trouble.may_write or len(self._waiting) >= _MOST_WAITING:
            return False
        if self._thread is None:
            self._hurry.clear()
            self._thread = Thread(target=self._run, name="kept graphs", daemon=True)
            self._thread.start()
        return True

    def _run(self) -> None:
        while True:
            self._hurry.wait(_GATHER_S)
            self._write()
            with self._changing:
                if not self._waiting or self._hurry.is_set():
                    self._thread = None
                    return

    def _write(self) -> None:
        with self._writing:
            with self._changing:
                waiting, self._waiting = self._waiting, _Waiting()
            if not waiting or not self._trouble.may_write:
                return
            try:
                self._begin_anew()
                self._file.keep(
                    [GraphRow(key, pieces_to_bytes(key, pieces)) for key, pieces in waiting.pieces.items()],
                    [_sizes_row(*named, sizes) for named, sizes in waiting.sizes.items()],
                    waiting.used - waiting.pieces.keys(),
                    int(time.time()),
                )
            except (sqlite3.Error, OSError) as failure:
                self._trouble.met(failure, writing=True)

    def _begin_anew(self) -> None:
        if self._trouble.is_damaged:
            with self._reading:
                self._file.discard()
                self._trouble.begun_anew()


def _sizes_row(key: bytes, counts: Counts, sizes: Sizes) -> SizesRow:
    named = counts_to_bytes(counts)
    return SizesRow(key, named, sizes_to_bytes(key, named, sizes))
