"""Whether and where this process keeps graphs."""

import atexit
import os
from functools import cache
from pathlib import Path
from typing import Final

from service.core.engines.llamacpp.compute.kept_graphs import keep_graphs_in
from service.core.units import MIB
from service.planning.kept_graphs.keys import rules_digest
from service.planning.kept_graphs.store import DiskGraphs
from service.store.graph_file import GraphFile

DEFAULT_BYTES: Final = 256 * MIB


def cache_folder(stated: Path | None) -> Path:
    """The folder that settings state, else `rigfit` where this system keeps what its user's programs can do without."""
    if stated is not None:
        return stated
    from platformdirs import user_cache_path  # noqa: PLC0415 - a container states it

    return user_cache_path("rigfit", appauthor=False)


def keep_graphs(stated: Path | None = None, most_bytes: int = DEFAULT_BYTES) -> None:
    """Keep graphs from now on, as settings state; not at all where there is room for none."""
    if most_bytes:
        rules_digest()
        keep_graphs_in(_disk_graphs(cache_folder(stated), most_bytes))


def write_kept_graphs() -> None:
    """Write what waits to be written, for processes that end without saying so."""
    for store in _STORES:
        store.writes.finish()


_STORES: Final[list[DiskGraphs]] = []


@cache
def _disk_graphs(folder: Path, most_bytes: int) -> DiskGraphs:
    store = DiskGraphs(GraphFile(folder, most_bytes))
    _STORES.append(store)
    atexit.register(write_kept_graphs)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=store.after_fork)
    return store
