"""A comparison as a table for people: a line per row, the best of each column marked, then why."""

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from service.contract.compare import Cell, CompareRow, Comparison, Measure
from service.core.units import GIB

_VERDICTS = {"fits": "fits", "fits_with_host_offload": "offload", "does_not_fit": "too large"}
_NAMES = {"models": "model", "quants": "model", "rigs": "rig", "contexts": "context", "engines": "engine"}
_COLUMNS: tuple[tuple[str, Measure], ...] = (
    ("decode", "decode_tokens_per_s"),
    ("prefill", "prefill_tokens_per_s"),
    ("first", "ttft_s"),
    ("longest", "max_context_tokens"),
    ("free", "least_headroom_bytes"),
)


def print_comparison(table: Comparison, console: Console | None = None) -> None:
    """Print a comparison to the terminal."""
    console = console or Console(highlight=False)
    console.print(_table(table))
    console.print(Text("tok/s, s, tokens and GiB; * is the best of those that run", style="dim"))
    for row in table.rows:
        if row.problem is not None:
            console.print(Text(f"{row.model} on {row.rig}: {row.problem.detail}", style="yellow"))
    for best in table.best:
        if best.measure == "decode_tokens_per_s":
            console.print(Text(best.why, style="green"))


def _table(table: Comparison) -> Table:
    names = dict.fromkeys(_NAMES[axis] for axis in table.varied)
    named = [name for name in names if len({_names(row)[name] for row in table.rows}) > 1] or ["model"]
    shown = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for title in named:
        shown.add_column(title, overflow="fold")
    shown.add_column("verdict", no_wrap=True)
    for title, _ in _COLUMNS:
        shown.add_column(title, justify="right", no_wrap=True)
    best = {(each.measure, each.row) for each in table.best}
    for index, row in enumerate(table.rows):
        shown.add_row(*_cells(row, named), *_figures(row, index, best))
    return shown


def _cells(row: CompareRow, named: list[str]) -> Iterator[str]:
    yield from (_names(row)[name] for name in named)
    yield "refused" if row.figures is None else _VERDICTS[str(row.figures["verdict"])]


def _names(row: CompareRow) -> dict[str, str]:
    context = "largest" if row.context_tokens is None else f"{row.context_tokens:,}"
    return {"model": row.model, "rig": row.rig, "context": context, "engine": row.engine}


def _figures(row: CompareRow, index: int, best: set[tuple[Measure, int]]) -> Iterator[str]:
    for _, measure in _COLUMNS:
        value = None if row.figures is None else row.figures[measure]
        yield _shown(measure, value) + ("*" if (measure, index) in best else "")


def _shown(measure: Measure, value: Cell) -> str:
    if value is None or isinstance(value, str):
        return ""
    if measure == "least_headroom_bytes":
        return f"{value / GIB:+.2f}"
    if measure == "max_context_tokens":
        return f"{value:,}"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
