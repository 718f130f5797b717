"""What a power limit costs: decode hardly notices it, prompt processing does, and far down both collapse.

Source: domain notes on power, section 7: six RTX 3090 (350 W), MiniMax M2.5 IQ2_M, llama.cpp, layer split, limits from
350 to 100 W (llmgarage.ai/power-limit-tokens-per-second-benchmark, February 2026). One RTX 3090 with a dense 27B model
loses less than 1 % at 280 W (jeanfbrito.github.io), one RTX 5060 Ti less than 1 % at 150 of 180 W (inventivehq.com).
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitedSpeed:
    """Shares of its own speed that a card keeps under a power limit."""

    decode_fraction: float
    prefill_fraction: float


# share of the card's own power → share of its speed, as measured; between rows on straight lines.
# The row of no power at all continues the collapse: no card can be set to it.
_DECODE: Final = (
    (0.0, 0.0), (100 / 350, 0.17), (150 / 350, 0.86), (200 / 350, 0.94), (250 / 350, 0.97), (0.8, 1.0),
)  # fmt: skip
_PREFILL: Final = (
    (0.0, 0.0), (100 / 350, 0.14), (150 / 350, 0.26), (200 / 350, 0.60), (250 / 350, 0.85), (300 / 350, 0.94),
    (1.0, 1.0),
)  # fmt: skip


def limited_speed(power_limit_w: float | None, tdp_w: float | None) -> LimitedSpeed:
    """Share of decode and prefill speed that a card with a limit keeps; all of it where one of the two is not known.

    power_limit_w: what is set on the card; tdp_w: what it may draw by itself. A limit above that changes nothing.
    With tensor split or many streams, where the card is busy all the time, decode loses more than this.
    """
    if power_limit_w is None or not tdp_w:
        return LimitedSpeed(decode_fraction=1.0, prefill_fraction=1.0)
    share = power_limit_w / tdp_w
    return LimitedSpeed(decode_fraction=_between(_DECODE, share), prefill_fraction=_between(_PREFILL, share))


def _between(rows: Sequence[tuple[float, float]], share: float) -> float:
    """Value at `share` on the straight line between the two rows around it, the last row's beyond it."""
    position = bisect_left(rows, share, key=lambda row: row[0])
    if position == 0:
        return rows[0][1]
    if position == len(rows):
        return rows[-1][1]
    (low, at_low), (high, at_high) = rows[position - 1], rows[position]
    return at_low + (at_high - at_low) * (share - low) / (high - low)
