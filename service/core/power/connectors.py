"""Leads that cards need and supplies have.

Source: domain notes on power, section 6; what a socket takes is in hardware_db/power.toml.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping

from service.core.board import Board
from service.core.power.facts import Connector


def boards_of(boards: Iterable[Board | None]) -> Counter[Board]:
    """Physical cards among devices: a board with two devices counts once for both."""
    devices = Counter(board for board in boards if board is not None)
    return Counter({board: -(-count // board.devices) for board, count in devices.items()})


def sockets_of(boards: Mapping[Board, int]) -> tuple[Counter[str], bool]:
    """Sockets of all cards by kind, and whether all of them are known."""
    sockets: Counter[str] = Counter()
    known = True
    for board, count in boards.items():
        if board.connectors is None:
            known = known and board.form != "card"
            continue
        for kind, each in board.connectors:
            sockets[kind] += count * each
    return sockets, known


def missing_leads(
    sockets: Mapping[str, int],
    socket_w: Mapping[str, float],
    leads: Mapping[str, int],
    connectors: Mapping[str, Connector],
) -> Counter[str]:
    """Leads that supplies lack, by kind, after makers' adapters have used up what is left of other leads.

    socket_w: what one socket of a kind carries at most here. One lead a socket, no splitters.
    Source: domain notes on power, section 6.
    """
    free: Counter[str] = Counter(leads)
    missing: Counter[str] = Counter()
    # native cables first: what they leave is there for adapters
    for kind in sorted(sockets, key=lambda each: connectors[each].adapter_lead is not None):
        connector = connectors[kind]
        for _ in range(sockets[kind]):
            through = adapter_leads(connector, socket_w.get(kind, connector.rated_w))
            if free[connector.lead] >= connector.leads:
                free[connector.lead] -= connector.leads
            elif connector.adapter_lead and free[connector.adapter_lead] >= through:
                free[connector.adapter_lead] -= through
            else:
                missing[connector.lead] += connector.leads
    return missing


def adapter_leads(connector: Connector, watts: float) -> int:
    """Leads that the maker's adapter takes in place of a native cable; 0 where there is no adapter."""
    return math.ceil(watts / connector.adapter_w) if connector.adapter_w else 0
