"""Room and air for cards. Source: domain notes on power, section 9 (SLOTS, PASSIVE) and worked examples (Power)."""

from collections.abc import Mapping
from typing import Final

from service.core.board import Board

# a card as wide as this breathes through the gap below it
WIDE_SLOTS: Final = 3


def slots_needed(boards: Mapping[Board, int]) -> int | None:
    """Slots that all cards take; None where one's width is not known. Modules and chips take none."""
    total = 0
    for board, count in boards.items():
        if board.form in ("module", "chip"):
            continue
        if board.slot_width is None:
            return None
        total += count * board.slot_width
    return total


def wide_cards(boards: Mapping[Board, int]) -> int:
    """Cards that take three slots or more."""
    return sum([count for board, count in boards.items() if (board.slot_width or 0) >= WIDE_SLOTS])


def stacked_wide_cards(boards: Mapping[Board, int], case_slots: int) -> int:
    """Wide cards that must sit without a gap: those between which the case's free slots leave none."""
    needed, wide = slots_needed(boards), wide_cards(boards)
    if needed is None or wide < 2:
        return 0
    gaps = max(0, case_slots - needed)
    return 0 if gaps >= wide - 1 else wide - gaps
