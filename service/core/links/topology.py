"""What joins the cards of a rig: NVLink groups, peer-to-peer access by driver policy, and each pair's path.

Source: domain notes on interconnect, sections 4 and 5.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Final

from service.core.links.pcie import pcie_bytes_per_s
from service.core.links.rates import ACROSS_SOCKETS_BYTES_PER_S, ASSUMED_PCIE, CHIPSET_PCIE, PATHS, PathKind
from service.core.types import Gpu, Rig

# rigs of more cards have too many pairs to list
LISTED_CARDS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """How two cards reach each other.

    link_bytes_per_s: rate of the narrowest link in one direction by its specification; bandwidth_bytes_per_s: what is
    reached of it, latency_s: time of a small transfer; None over a network.
    """

    kind: PathKind
    link_bytes_per_s: float | None
    bandwidth_bytes_per_s: float | None
    latency_s: float | None


def link_bytes_per_s(gpu: Gpu) -> float:
    """Rate of a card's own link to the rest of the machine; behind a chipset no more than that has.

    Raises KeyError for a PCI Express generation without a row.
    """
    own = pcie_bytes_per_s(gpu.pcie_gen or ASSUMED_PCIE[0], gpu.pcie_lanes or ASSUMED_PCIE[1])
    return min(own, pcie_bytes_per_s(*CHIPSET_PCIE)) if gpu.behind == "chipset" else own


@lru_cache(maxsize=1024)
def nvlink_groups(rig: Rig) -> tuple[tuple[int, ...], ...]:
    """Cards that NVLink joins: as stated, else what the cards allow.

    Cards of one kind count as joined: by a switch all of them, by bridges as many as one takes, in the rig's order.
    A stated group larger than a bridge takes falls into such groups: only those are joined.

    Source: domain notes on interconnect, section 4; worked examples (Links): a bridge joins two cards.
    """
    stated = rig.machine.nvlink
    if stated is not None:
        return tuple(part for group in stated for part in _bridged(rig.gpus, group))
    kinds: dict[Gpu, list[int]] = {}
    for index, gpu in enumerate(rig.gpus):
        if gpu.board is not None and gpu.board.nvlink != "none":
            kinds.setdefault(gpu, []).append(index)
    return tuple(part for cards in kinds.values() for part in _bridged(rig.gpus, cards))


def _bridged(gpus: Sequence[Gpu], cards: Sequence[int]) -> list[tuple[int, ...]]:
    """Cut a group into what one bridge or switch joins; what is left alone is in none."""
    sizes = [gpus[card].board.nvlink_max_gpus for card in cards if gpus[card].board]  # type: ignore[union-attr]
    most = min((size for size in sizes if size), default=len(cards)) or 1
    parts = [tuple(cards[first : first + most]) for first in range(0, len(cards), most)]
    return [part for part in parts if len(part) > 1]


def peer_access(rig: Rig, first: int, second: int) -> bool:
    """Whether two cards copy to each other over PCI Express without the host.

    By the stock driver: workstation and datacentre cards do, GeForce from Turing on does not. A user's claim of a
    patched driver holds for cards of one generation.

    Source: domain notes on interconnect, section 4.
    """
    claim = rig.machine.p2p
    one, other = rig.gpus[first], rig.gpus[second]
    if claim is False or one.backend != other.backend or "rpc" in (one.backend, other.backend):
        return False
    if stock_peer_access(one, other):
        return True
    return bool(claim) and one.generation == other.generation and one.compute_capability == other.compute_capability


def stock_peer_access(one: Gpu, other: Gpu) -> bool:
    """Whether the stock driver lets both cards reach a peer over PCI Express."""
    return all(gpu.board is not None and gpu.board.pcie_p2p == "yes" for gpu in (one, other))


def path_between(rig: Rig, first: int, second: int) -> Path:
    """How two cards of the rig, by position, reach each other."""
    one, other = rig.gpus[first], rig.gpus[second]
    if any(first in group and second in group for group in nvlink_groups(rig)):
        rates = [gpu.board.nvlink_bytes_per_s for gpu in (one, other) if gpu.board and gpu.board.nvlink_bytes_per_s]
        return _path("nvlink", min(rates) if rates else None)
    if "rpc" in (one.backend, other.backend):
        return Path(kind="network", link_bytes_per_s=None, bandwidth_bytes_per_s=None, latency_s=None)
    link = min(link_bytes_per_s(one), link_bytes_per_s(other))
    if not peer_access(rig, first, second):
        return _path("host-staged", link)
    if across_sockets(one, other):
        link = min(link, ACROSS_SOCKETS_BYTES_PER_S / PATHS["pcie-p2p"].mid_fraction)
    return _path("pcie-p2p", link)


def across_sockets(one: Gpu, other: Gpu) -> bool:
    """Whether two cards are known to hang on different sockets."""
    return None not in (one.numa_node, other.numa_node) and one.numa_node != other.numa_node


def _path(kind: PathKind, link: float | None) -> Path:
    rates = PATHS[kind]
    return Path(
        kind=kind,
        link_bytes_per_s=link,
        bandwidth_bytes_per_s=None if link is None else rates.mid_fraction * link,
        latency_s=rates.mid_latency_s,
    )


@lru_cache(maxsize=1024)
def paths(rig: Rig) -> tuple[tuple[tuple[int, int], Path], ...]:
    """Every pair of cards with its path; of a large rig's, only pairs that stand for all of their sort."""
    cards = range(len(rig.gpus))
    among = cards if len(cards) <= LISTED_CARDS else _standing_for(rig, cards)
    return tuple((pair, path_between(rig, *pair)) for pair in combinations(among, 2))


@lru_cache(maxsize=1024)
def slowest_path(rig: Rig, cards: tuple[int, ...]) -> Path | None:
    """The path that a reduction over these cards waits for; None for fewer than two cards."""
    among = (path_between(rig, *pair) for pair in combinations(_standing_for(rig, cards), 2))
    order: list[PathKind] = ["nvlink", "pcie-p2p", "host-staged", "network"]
    return max(among, key=lambda path: (order.index(path.kind), -(path.bandwidth_bytes_per_s or 0.0)), default=None)


def _standing_for(rig: Rig, cards: Sequence[int]) -> list[int]:
    """Two cards of each sort: equal ones within one NVLink group, or in none, have the same paths."""
    group_of = {card: number for number, group in enumerate(nvlink_groups(rig)) for card in group}
    found: dict[tuple[Gpu, int | None], list[int]] = {}
    for card in cards:
        same = found.setdefault((rig.gpus[card], group_of.get(card)), [])
        if len(same) < 2:
            same.append(card)
    return sorted(card for same in found.values() for card in same)
