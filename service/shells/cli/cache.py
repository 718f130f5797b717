"""`rigfit cache`: what is kept of compute graphs, and where."""

import sqlite3
import sys
from typing import Annotated

import typer

from service.core.problems import Unsupported
from service.shells.cli.problems import exit_on_problem


def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Delete it; plans build their graphs again.")] = False,
) -> None:
    """Show what is kept of compute graphs for the next plans, and where."""
    from service.planning.kept_graphs import cache_folder  # noqa: PLC0415
    from service.settings import settings  # noqa: PLC0415
    from service.store.graph_file import GraphFile, contents  # noqa: PLC0415

    with exit_on_problem(as_json=False):
        file = GraphFile(cache_folder(settings().cache_folder), settings().cache_bytes)
        try:
            if clear:
                file.discard()
            found = contents(file.path)
        except (sqlite3.Error, OSError) as failure:
            raise Unsupported(f"{file.path}: {failure}. rigfit cache --clear deletes it.") from None
    graphs = "nothing is kept" if found is None else f"{found.graphs:,} compute graphs in {found.size_bytes:,} bytes"
    sys.stdout.write(f"{file.path}: {graphs}\n")
