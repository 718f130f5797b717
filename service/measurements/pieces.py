"""What a format's reader gives back of a text."""

from dataclasses import dataclass, field

from service.measurements.runs import Run, Unread


@dataclass(slots=True, kw_only=True)
class Piece:
    """Lines that one reader took.

    end: the first line behind them. needs_context: what was measured on may be told by the lines around.
    """

    format: str
    end: int
    runs: list[Run] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    needs_context: bool = False
