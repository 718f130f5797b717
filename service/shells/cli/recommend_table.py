"""Recommended rigs as a table for people, with what was looked at."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from service.contract.recommend import Recommendation, Recommendations
from service.core.units import GIB

_TITLES = ("rig", "cards", "W", "price", "decode", "prefill", "first", "longest", "free")


def print_recommendations(answer: Recommendations, console: Console | None = None) -> None:
    """Print recommendations to the terminal."""
    console = console or Console(highlight=False)
    if answer.recommendations:
        console.print(_table(answer))
        console.print(Text("tok/s, s, tokens and GiB", style="dim"))
        best = answer.recommendations[0]
        console.print(Text(f"{best.rig}: {best.why}", style="green"))
        for model in best.models:
            console.print(Text(model.command, style="cyan", overflow="fold"))
    for miss in answer.near_misses:
        console.print(Text(f"{miss.rig}: {miss.missing}", style="yellow"))
    for sentence in answer.explanation:
        console.print(Text(sentence, style="dim"))


def _table(answer: Recommendations) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(_TITLES[0], overflow="fold")
    for title in _TITLES[1:]:
        table.add_column(title, justify="right", no_wrap=True)
    for rig in answer.recommendations:
        table.add_row(rig.rig, str(rig.cards), *_cells(rig))
    return table


def _cells(rig: Recommendation) -> list[str]:
    free = [model.least_headroom_bytes for model in rig.models if model.least_headroom_bytes is not None]
    return [
        _short(rig.power_w),
        _short(rig.price),
        _short(rig.decode_tokens_per_s),
        _short(rig.prefill_tokens_per_s),
        _short(rig.ttft_s),
        f"{min(model.max_context_tokens for model in rig.models):,}",
        f"{min(free) / GIB:+.2f}" if free else "",
    ]


def _short(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
