"""Which columns of a table ask, which are kept, and which are answers of an earlier time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from service.contract.cells import Cell, as_typed
from service.contract.columns import COLUMNS, column_of_header, is_blank
from service.core.problems import InvalidRequest
from service.planning.batch.table import Row, Table
from service.planning.row import ROW_COLUMNS

PROBLEM: Final = "problem"


def _result_name(name: str) -> str:
    """A column of answers, told apart from the questions' column of the same name."""
    if name == "id":
        return "plan_id"
    return f"planned_{name}" if name in COLUMNS else name


RESULT_COLUMNS: Final = (*(_result_name(name) for name in ROW_COLUMNS), PROBLEM)
# what asks in a row of GET /plan?format=csv; the rest of it are answers
_ASKING: Final = {"model", "quant", "gpus", "context_tokens", "parallel", "engine"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """inputs: position by column; kept: positions of what is given back; header: theirs and the answers'."""

    inputs: Mapping[str, int]
    kept: Sequence[int]
    header: Sequence[Cell]

    @classmethod
    def of(cls, table: Table) -> "Layout":
        """Raises InvalidRequest where no column, or two, are the same one of a question."""
        names = [as_typed(cell) for cell in table.header]
        answers = _positions(names, RESULT_COLUMNS)
        copied = _positions(names, ROW_COLUMNS)
        inputs: dict[str, int] = {}
        for at, name in enumerate(names):
            column = column_of_header(name)
            if column is None or at in answers or (at in copied and column not in _ASKING):
                continue
            if column in inputs:
                both = f"{names[inputs[column]]!r} and {name!r}"
                raise InvalidRequest(f"The columns {both} are both {column}: leave one.", fields=(column,))
            inputs[column] = at
        if "model" not in inputs:
            shown = ", ".join(repr(name) for name in names[:20] if name.strip()) or "none"
            raise InvalidRequest(f"No column is called model; columns here: {shown}.", fields=("model",))
        kept = [at for at in range(len(names)) if at not in answers]
        header = [*(table.header[at] for at in kept), *RESULT_COLUMNS]
        return cls(inputs=inputs, kept=kept, header=header)

    def question(self, row: Row) -> dict[str, Cell] | None:
        """The cells of a row that ask, None where nothing stands in the whole row."""
        cells = {column: row[at] for column, at in self.inputs.items() if at < len(row) and not is_blank(row[at])}
        return cells if cells or any(not is_blank(row[at]) for at in self.kept if at < len(row)) else None

    def kept_cells(self, row: Row) -> list[Cell]:
        """What is given back of a row."""
        return [row[at] if at < len(row) else None for at in self.kept]


def _positions(names: Sequence[str], block: Sequence[str]) -> range:
    """Where a block of columns stands together, in its order; empty where it does not."""
    for start in range(len(names) - len(block) + 1):
        if tuple(names[start : start + len(block)]) == tuple(block):
            return range(start, start + len(block))
    return range(0)
