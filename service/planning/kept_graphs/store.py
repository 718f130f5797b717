"""The store of graphs that planning gives to the core: reads at once, writes later and many at a time."""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar

from service.core.engines.llamacpp.compute.kept_graphs import (
    NOTHING,
    Counts,
    Description,
    GraphPieces,
    KeptGraph,
    Sizes,
)
from service.core.types import Model
from service.planning.kept_graphs.encoding import DamagedError, counts_from_bytes, pieces_from_bytes, sizes_from_bytes
from service.planning.kept_graphs.keys import key_of
from service.planning.kept_graphs.trouble import Trouble
from service.planning.kept_graphs.writing import LaterWrites
from service.store.graph_file import GraphFile

_Read = TypeVar("_Read")


class DiskGraphs:
    """Keeps graphs in a file; safe to share between threads, and across a fork."""

    def __init__(self, file: GraphFile) -> None:
        self._file = file
        self._trouble = Trouble(file.path)
        self._begin()

    def _begin(self) -> None:
        self._reading = Lock()
        self.writes = LaterWrites(self._file, self._trouble, self._reading)

    def after_fork(self) -> None:
        """Begin anew in a forked process: connections, locks and what waits to be written are its parent's."""
        self._file.forget_connections()
        self._begin()

    def graph(self, model: Model, *, typed: bool, described: Description, n_buffers: int) -> KeptGraph:
        """What is kept of a graph."""
        if not self._trouble.may_read and not self._trouble.may_write:
            return NOTHING
        return DiskGraph(self, key_of(model, typed=typed, described=described), n_buffers)

    def sizes(self, key: bytes, n_buffers: int) -> dict[Counts, Sizes]:
        """Sizes of a graph by counts, but for damaged ones."""
        found = self._read(lambda: self._file.known(key))
        if found is None:
            return {}
        self.writes.use(key, found.used_at_s)
        sizes: dict[Counts, Sizes] = {}
        for counts, kept in found.sizes:
            try:
                sizes[counts_from_bytes(counts)] = sizes_from_bytes(key, counts, kept, n_buffers)
            except DamagedError:  # found again, it takes the damaged row's place
                continue
        return sizes

    def pieces(self, key: bytes, n_buffers: int) -> GraphPieces | None:
        """Pieces of a graph; None where they are damaged, of which those built anew take the place."""
        found = self._read(lambda: self._file.pieces(key))
        try:
            return None if found is None else pieces_from_bytes(key, found, n_buffers)
        except DamagedError:
            return None

    def _read(self, read: Callable[[], _Read | None]) -> _Read | None:
        with self._reading:
            if not self._trouble.may_read:
                return None
            try:
                return read()
            except (sqlite3.Error, OSError) as failure:
                self._trouble.met(failure, writing=False)
                return None


@dataclass(frozen=True, slots=True)
class DiskGraph:
    """What a file keeps of one graph."""

    graphs: DiskGraphs
    key: bytes
    n_buffers: int

    def sizes(self) -> dict[Counts, Sizes]:
        """The buffers for all counts that were asked for."""
        return self.graphs.sizes(self.key, self.n_buffers)

    def pieces(self) -> GraphPieces | None:
        """What the buffers are made of."""
        return self.graphs.pieces(self.key, self.n_buffers)

    def keep_sizes(self, counts: Counts, sizes: Sizes) -> None:
        """Keep the buffers for further counts."""
        self.graphs.writes.keep_sizes(self.key, counts, sizes)

    def keep_pieces(self, pieces: GraphPieces) -> None:
        """Keep what the buffers are made of."""
        self.graphs.writes.keep_pieces(self.key, pieces)
