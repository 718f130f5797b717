"""`rigfit gpus` and `rigfit models`: the catalogues as tables."""

from rich.console import Console
from rich.table import Table

from service.catalog.gpu_documents import search_gpus
from service.core.units import GIB
from service.planning.local import catalogues


def print_gpus(search: str) -> None:
    """List the cards whose names have every word of `search`."""
    table = _table("slug", "name", "memory", "bandwidth", "power")
    for record in search_gpus(catalogues().gpus, search):
        table.add_row(
            record.slug,
            record.name,
            _with_unit(record.vram_bytes and record.vram_bytes / GIB, "GiB"),
            _with_unit(record.memory_bandwidth_bytes_per_s and record.memory_bandwidth_bytes_per_s / 1e9, "GB/s"),
            _with_unit(record.tdp_w, "W"),
        )
    _print(table)


def print_models(search: str) -> None:
    """List the models whose name or architecture has every word of `search`, with the sizes of their quants."""
    table = _table("model", "weights", "active", "context", "quants (GB)")
    for summary in catalogues().models.search(search):
        table.add_row(
            summary.name,
            f"{summary.parameters / 1e9:.1f} B",
            f"{summary.active_parameters / 1e9:.1f} B",
            f"{summary.trained_context_tokens:,}",
            ", ".join(f"{row.quant} {row.tensor_data_bytes / 1e9:.1f}" for row in summary.rows),
        )
    _print(table)


def _table(*titles: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(titles[0], no_wrap=True)
    for title in titles[1:]:
        table.add_column(title, overflow="fold")
    return table


def _print(table: Table) -> None:
    console = Console(highlight=False)
    if table.row_count:
        console.print(table)
    else:
        console.print("nothing in the catalogue has all of these words")


def _with_unit(value: float | None, unit: str) -> str:
    return "" if value is None else f"{value:.4g} {unit}"
