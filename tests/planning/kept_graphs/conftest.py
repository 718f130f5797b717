"""A file of kept graphs, and graphs that are asked for anew as a further process would ask."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from service.core.engines.llamacpp.compute import reserve
from service.core.engines.llamacpp.compute.kept_graphs import NOTHING, keep_graphs_in
from service.core.units import MIB
from service.planning.kept_graphs.store import DiskGraphs
from service.store.graph_file import GraphFile

Begin = Callable[[], DiskGraphs]


def forget() -> None:
    """Know no graph, as a process that has just started."""
    reserve._prompt.cache_clear()
    reserve._generation.cache_clear()


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Makes the next process of those that share a file, which writes what the one before found out."""
    stores: list[DiskGraphs] = []

    def end() -> None:
        for store in stores:
            store.writes.finish()
            store._file.close()

    def another() -> DiskGraphs:
        end()
        stores.append(DiskGraphs(GraphFile(tmp_path / "cache", 256 * MIB)))
        keep_graphs_in(stores[-1])
        forget()
        return stores[-1]

    yield another
    keep_graphs_in(NOTHING)
    forget()
    end()
