"""What the command line shows while headers of other hosts are read, and of repositories that are only listed."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn
from rich.table import Table

from service.contract.imports import RepositoryListing
from service.remote.gguf_files import FileProgress


class HeaderProgress:
    """One line for each file on the standard error: bytes read of its header, and the size of the file.

    Where that is no terminal, a plain line when a file's first bytes come.
    """

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(binary_units=True),
            TextColumn("of the header"),
            TransferSpeedColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def tell(self, step: FileProgress) -> None:
        """Show how far one file is."""
        if step.file not in self._tasks:
            size = "" if step.file_bytes is None else f" (of {step.file_bytes / 1e9:,.2f} GB)"
            self._tasks[step.file] = self._bars.add_task(f"{step.file}{size}", total=None)
            if not self._console.is_terminal:
                self._console.print(f"reading the header of {step.file}{size}", soft_wrap=True)
        self._bars.update(self._tasks[step.file], completed=step.read_bytes)


def print_listing(listing: RepositoryListing) -> None:
    """Show the files of a repository, and how to import one."""
    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("file", "GB", "parts"):
        table.add_column(title, overflow="fold")
    for file in listing.files:
        missing = f"{file.parts} ({len(file.missing)} missing)" if file.missing else str(file.parts)
        table.add_row(file.file, f"{file.size_bytes / 1e9:.2f}", missing)
    console.print(table)
    console.print(f"name one of them: rigfit models import {listing.repo}/FILE", soft_wrap=True)
