"""Energy of tokens, and what it costs."""

from typing import Final

SECONDS_PER_HOUR: Final = 3600.0
HOURS_PER_YEAR: Final = 8766.0


def wh_per_1000_tokens(watts: float, tokens_per_s: float) -> float:
    """Energy of a thousand tokens in watt-hours at a steady draw and rate."""
    return watts * (1000.0 / tokens_per_s) / SECONDS_PER_HOUR


def cost(wh: float, tariff_per_kwh: float) -> float:
    """Price of energy, in the tariff's currency."""
    return wh / 1000.0 * tariff_per_kwh


def kwh_per_year(watts: float) -> float:
    """Energy of a year at a steady draw."""
    return watts * HOURS_PER_YEAR / 1000.0
