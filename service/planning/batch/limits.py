"""How much of a table or list is read, and the problem of one that is larger."""

from dataclasses import dataclass

from service.core.problems import PlanProblem


class TooLarge(PlanProblem):
    """More than is read at once."""

    slug = "too-large"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """rows: most rows or requests; columns: most columns; memory_bytes: what reading a workbook may take."""

    rows: int
    columns: int = 500
    memory_bytes: int = 1 << 30

    def check(self, rows: int, columns: int = 0) -> None:
        """Raises TooLarge where there are more."""
        if rows > self.rows:
            raise TooLarge(f"There are more than {self.rows:,} rows, the most that are answered at once; send parts.")
        if columns > self.columns:
            raise TooLarge(f"There are more than {self.columns:,} columns, the most that are read.")
