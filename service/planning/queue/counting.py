"""What a worker tells of its work, for whoever counts it."""

from typing import Protocol


class WorkObserver(Protocol):
    """Is told of every chunk of rows; must be quick and safe to call from several threads."""

    def answered(self, rows: int, refused: int, duration_s: float) -> None:
        """Answers of so many rows are kept, of which `refused` are problems; it took so long."""

    def answered_in_vain(self, rows: int) -> None:
        """Answers of so many rows are not kept: others had them first, or the batch was cancelled meanwhile."""

    def failed(self) -> None:
        """A batch ended with a problem."""


class Unobserved:
    """Counts nothing."""

    def answered(self, rows: int, refused: int, duration_s: float) -> None:
        """Pass over it."""

    def answered_in_vain(self, rows: int) -> None:
        """Pass over it."""

    def failed(self) -> None:
        """Pass over it."""
