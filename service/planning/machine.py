"""The machine of a request as the core reasons about it: supplies, circuit, case, links."""

from collections.abc import Sequence
from typing import Final

from service.catalog.power_facts import platform_named, power_facts
from service.catalog.suggestions import close_names
from service.contract import rig as contract
from service.core.links.topology import nvlink_groups
from service.core.machine import DEFAULT_MACHINE, Circuit, Machine, Psu
from service.core.problems import Contradiction, InvalidRequest
from service.core.types import Gpu, Rig

# what a request says of the cards and the memory alone
_ELSEWHERE: Final = {"gpus", "host", "preset"}
_OF_MACHINE: Final = {"cpu", "cpu_w", "dimms", "nics"}


def machine_of(request: contract.RigRequest, gpus: Sequence[Gpu]) -> Machine:
    """What surrounds the cards.

    Raises InvalidRequest for an unknown platform or a card that is not there, Contradiction for links that the cards
    do not have and for supplies that do not add up.
    """
    if not (request.model_fields_set - _ELSEWHERE) and not (request.host.model_fields_set & _OF_MACHINE):
        return DEFAULT_MACHINE
    host = request.host
    return Machine(
        psu=_psu(request.psu, len(gpus)),
        circuit=Circuit(
            volts=request.circuit.volts,
            amps=request.circuit.amps,
            continuous=request.circuit.continuous,
            shared=request.circuit.shared,
            tariff_per_kwh=request.circuit.tariff_per_kwh,
        ),
        chassis=request.chassis,
        slots=request.slots,
        cpu_w=host.cpu_w,
        platform=_platform(request),
        dimms=host.dimms,
        nics=host.nics,
        nvlink=_nvlink(request, gpus),
        p2p=request.p2p,
    )


def _psu(stated: contract.PsuRequest, n_cards: int) -> Psu:
    feeds = None if stated.feeds is None else tuple(map(tuple, stated.feeds))
    if feeds is not None:
        if stated.count not in (None, len(feeds)):
            raise Contradiction(
                f"{stated.count} supplies cannot feed {len(feeds)} groups of cards: state one group for each.",
                fields=("rig.psu.feeds", "rig.psu.count"),
            )
        _refuse_other_cards(feeds, n_cards, "rig.psu.feeds")
        if missing := set(range(n_cards)) - {card for cards in feeds for card in cards}:
            raise Contradiction(
                f"No supply feeds card {', '.join(map(str, sorted(missing)))}.", fields=("rig.psu.feeds",)
            )
    leads = stated.connectors
    return Psu(
        rated_w=stated.rated_w,
        atx_version=stated.atx_version,
        count=len(feeds) if feeds is not None else stated.count or 1,
        kind=stated.kind,
        efficiency=stated.efficiency,
        leads=None if leads is None else tuple(leads.model_dump().items()),
        feeds=feeds,
        worst_case=bool(stated.worst_case),
    )


def _platform(request: contract.RigRequest) -> str | None:
    named = request.platform
    if named is None:
        return None if request.host.cpu is None else platform_named(request.host.cpu)
    platforms = power_facts().platforms
    if named.lower() not in platforms:
        raise InvalidRequest(
            f"There is no platform named {named[:80]!r}; known are {', '.join(platforms)}.",
            suggestions=close_names(named, platforms) or tuple(platforms),
            fields=("rig.platform",),
        )
    return named.lower()


def _nvlink(request: contract.RigRequest, gpus: Sequence[Gpu]) -> tuple[tuple[int, ...], ...] | None:
    """Groups of cards that NVLink joins, None for what the cards allow."""
    stated = request.nvlink
    if stated is None:
        return None
    if stated is False:
        return ()
    if stated is True:
        groups = nvlink_groups(Rig(gpus=tuple(gpus)))
        if not groups:
            raise Contradiction("No two cards of this rig can be joined by NVLink.", fields=("rig.nvlink",))
        return groups
    groups = tuple(map(tuple, stated))
    _refuse_other_cards(groups, len(gpus), "rig.nvlink")
    for card in (card for group in groups for card in group):
        board = gpus[card].board
        if board is not None and board.nvlink == "none":
            raise Contradiction(
                f"Card {card} ({gpus[card].slug}) has no NVLink: leave it out of rig.nvlink.", fields=("rig.nvlink",)
            )
    return groups


def _refuse_other_cards(groups: Sequence[Sequence[int]], n_cards: int, field: str) -> None:
    cards = [card for group in groups for card in group]
    if outside := [card for card in cards if card >= n_cards]:
        raise InvalidRequest(f"There is no card {outside[0]}: the rig has {n_cards}, counted from 0.", fields=(field,))
    if twice := [card for card in dict.fromkeys(cards) if cards.count(card) > 1]:
        raise Contradiction(f"Card {twice[0]} is in two groups.", fields=(field,))
