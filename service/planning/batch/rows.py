"""A table's rows with their answers behind them."""

from collections import deque
from collections.abc import Iterator

from service.contract.cells import Cell
from service.planning.batch.answering import BLANK, Question, answer_cells, question_of_cells
from service.planning.batch.layout import Layout
from service.planning.batch.order import ROWS, in_order
from service.planning.batch.processes import BatchProcesses
from service.planning.batch.table import Table


def answered_rows(table: Table, layout: Layout, processes: BatchProcesses) -> Iterator[list[Cell]]:
    """Rows in their order, each as wide as the layout's header: what was kept of it, then its answers."""
    kept: deque[list[Cell]] = deque()

    def questions() -> Iterator[Question | None]:
        for row in table.rows():
            kept.append(layout.kept_cells(row))
            cells = layout.question(row)
            yield None if cells is None else question_of_cells(cells, decimal_comma=table.decimal_comma)

    for answers in in_order(questions(), answer_cells, processes, ROWS):
        yield [*kept.popleft(), *(answers or BLANK)]
