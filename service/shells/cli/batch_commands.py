"""The commands of batches, as they are typed: answered here, or left to workers."""

from pathlib import Path
from typing import Annotated

import typer

from service.core.problems import InvalidRequest
from service.shells.cli.problems import exit_on_problem


def batch(
    source: Annotated[Path, typer.Argument(help="CSV or XLSX of questions: a row each, a column named model.")],
    target: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="CSV or XLSX to write: the rows, answered.", show_default=False),
    ] = None,
    queue: Annotated[
        bool, typer.Option("--queue", help="Leave it to rigfit worker, through PostgreSQL; CSV, XLSX, JSON or JSONL.")
    ] = False,
) -> None:
    """Answer a table of questions over all processors, into a table with columns of answers."""
    with exit_on_problem(as_json=False):
        if queue:
            from service.shells.cli.batches import submit  # noqa: PLC0415

            submit(source, target)
            return
        from service.shells.cli.batch import batch as run  # noqa: PLC0415

        if target is None:
            raise InvalidRequest("Say where the answers go: -o FILE, or leave the table to workers: --queue.")
        run(source, target)


def batches(
    batch_id: Annotated[
        str | None, typer.Argument(help="One batch; without it the latest are listed.", show_default=False)
    ] = None,
    target: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Wait for its answers and write them.", show_default=False),
    ] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Stop it; none of its answers are kept.")] = False,
) -> None:
    """Show batches in the queue, cancel one, or fetch its answers."""
    from service.shells.cli.batches import follow, list_batches  # noqa: PLC0415

    with exit_on_problem(as_json=False):
        if batch_id is not None:
            follow(batch_id, target, cancel=cancel)
            return
        if target or cancel:
            raise InvalidRequest("-o and --cancel are for one batch: rigfit batches ID.")
        list_batches()


def worker(
    processes: Annotated[
        int | None, typer.Option(min=1, help="Processes that answer; default RIGFIT_BATCH_PROCESSES, else all cores.")
    ] = None,
) -> None:
    """Answer batches of the queue until interrupted; as many as you like, on any machine that reaches the database."""
    from service.shells.cli.worker import worker as run  # noqa: PLC0415

    with exit_on_problem(as_json=False):
        run(processes)
