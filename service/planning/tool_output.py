"""Output of tools as a rig that requests can use."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final

from pydantic import JsonValue

from service.catalog.gpu_names import NamedGpu, parse_count
from service.catalog.gpu_records import vendors
from service.catalog.gpus import GpuCatalog
from service.catalog.tools import TOOLS, read_tools
from service.catalog.tools.reading import Reading, SeenCard
from service.contract.rig import GpuRequest
from service.contract.rigs import ParsedRig, ParseRequest
from service.core.problems import Contradiction, InvalidRequest, UnknownGpu
from service.core.units import GIB

# a limit set by hand differs by more than what tools round
LIMIT_TOLERANCE_W: Final = 1.0
# memory in use beyond what a driver and a desktop take
NOTED_USE_BYTES: Final = GIB


def parse_rig(request: ParseRequest, catalogue: GpuCatalog) -> ParsedRig:
    """Read a rig from what was pasted.

    Raises InvalidRequest where no known tool printed it or where nothing names the cards, UnknownGpu for a card that
    the catalogue does not have, Contradiction where outputs disagree.
    """
    readings = read_tools(request.text)
    if not readings:
        raise InvalidRequest(
            f"No output of a known tool was found; read are {', '.join(tool.name for tool in TOOLS)}.",
            suggestions=tuple(tool.name for tool in TOOLS),
            fields=("text",),
        )
    cards = _merged(readings)
    notes = [note for reading in readings for note in reading.notes]
    if any(card.name is not None for card in cards):
        if request.gpus:
            raise Contradiction("The text names the cards: leave gpus out.", fields=("gpus",))
        gpus = [_entry(card, catalogue) for card in cards]
        notes += _notes(cards)
    else:
        gpus = _stated(request, len(cards), cards)
    rig: dict[str, JsonValue] = {"gpus": list(_grouped(gpus))}
    notes += _links(readings, rig)
    return ParsedRig(rig=rig, tools=[reading.tool for reading in readings], notes=notes)


def _merged(readings: Sequence[Reading]) -> list[SeenCard]:
    """Each card once, with everything that any output says of it; raises Contradiction where they show other cards."""
    shown = [reading for reading in readings if reading.cards]
    numbers = {len(reading.cards): reading.tool for reading in shown}
    if len(numbers) > 1:
        seen = " and ".join(f"{tool} shows {number}" for number, tool in sorted(numbers.items()))
        raise Contradiction(f"The outputs are not of one machine: {seen} cards.", fields=("text",))
    merged: dict[int, SeenCard] = {}
    for reading in shown:
        for card in reading.cards:
            known = merged.get(card.index)
            merged[card.index] = card if known is None else known.completed(card)
    return [merged[index] for index in sorted(merged)]


def _entry(card: SeenCard, catalogue: GpuCatalog) -> dict[str, JsonValue]:
    """A card as a request states it, with what differs from the catalogue."""
    if card.name is None:
        return _remote(card)
    record = _named(card, catalogue).record
    entry: dict[str, JsonValue] = {"gpu": record.slug}
    if _is_limited(card, record.tdp_w):
        entry["power_limit_w"] = card.power_limit_w
    for field, own in (("pcie_gen", record.pcie_gen), ("pcie_lanes", record.pcie_lanes)):
        seen = getattr(card, field)
        if seen is not None and own is not None and seen < own:
            entry[field] = seen
    return entry | _besides(card, record.vendor)


def _is_limited(card: SeenCard, tdp_w: float | None) -> bool:
    """Whether a limit says something: another than the catalogue's, set by hand or by the card's maker.

    AMD's tool prints what the chip alone may draw, which is less than the board's.
    """
    if card.power_limit_w is None or card.backend == "rocm":
        return False
    return tdp_w is None or abs(card.power_limit_w - tdp_w) > LIMIT_TOLERANCE_W


def _besides(card: SeenCard, vendor: str) -> dict[str, JsonValue]:
    """What no catalogue says: memory that is free, the NUMA node, a backend that is not the vendor's own."""
    entry: dict[str, JsonValue] = {}
    if card.free_bytes is not None:
        entry["free_bytes"] = card.free_bytes
    if card.numa_node is not None:
        entry["numa_node"] = card.numa_node
    if card.backend is not None and card.backend != vendors()[vendor].default_backend:
        entry["backend"] = card.backend
    return entry


def _remote(card: SeenCard) -> dict[str, JsonValue]:
    """A device of another machine: its memory is all that is known of it."""
    gpu: dict[str, JsonValue] = {
        "name": f"remote device {card.index}", "vram_bytes": card.total_bytes or 1, "backend": "rpc"
    }  # fmt: skip
    return {"gpu": gpu} | ({} if card.free_bytes is None else {"free_bytes": card.free_bytes})


def _named(card: SeenCard, catalogue: GpuCatalog) -> NamedGpu:
    """The card that a driver's name means, its memory size said where the name alone could mean several.

    Raises UnknownGpu.
    """
    name = card.name or ""
    try:
        return catalogue.names.resolve(name)
    except UnknownGpu as refused:
        for gib in _nominal_gib(card.total_bytes):
            try:
                return catalogue.names.resolve(f"{name} {gib}GB")
            except UnknownGpu:
                continue
        raise UnknownGpu(
            f"Card {card.index}: {refused.detail}", suggestions=refused.suggestions, fields=("text",)
        ) from None  # fmt: skip


def _nominal_gib(total_bytes: int | None) -> Iterator[int]:
    """Sizes on the box that a driver's total may mean: it keeps up to a fifteenth for itself and for ECC."""
    if total_bytes is not None:
        least = -(-total_bytes // GIB)
        yield from range(least, int(total_bytes * 1.07 / GIB) + 2)


def _stated(request: ParseRequest, seen: int, cards: Sequence[SeenCard]) -> list[dict[str, JsonValue]]:
    """Cards of the request beside an output that names none, with the nodes that it shows.

    Raises InvalidRequest where there are none, Contradiction where there are not as many.
    """
    if not request.gpus:
        raise InvalidRequest(
            "The text names no cards: paste the output of nvidia-smi -q as well, or state gpus.", fields=("gpus",)
        )
    gpus: list[dict[str, Any]] = []
    for entry in request.gpus:
        if isinstance(entry, GpuRequest):
            stated = entry.model_dump(mode="json", exclude_unset=True, exclude={"count"})
            gpus += [stated] * entry.count
        else:
            count, name = parse_count(entry)
            gpus += [{"gpu": name}] * count
    if len(gpus) != seen:
        raise Contradiction(f"The text shows {seen} cards, {len(gpus)} are stated.", fields=("gpus",))
    nodes = [{} if card.numa_node is None else {"numa_node": card.numa_node} for card in cards]
    return [gpu | node for gpu, node in zip(gpus, nodes, strict=True)]


def _grouped(gpus: Sequence[dict[str, JsonValue]]) -> Iterator[JsonValue]:
    """Equal neighbours together, by name alone where there is nothing else to say."""
    for entry, equal in groupby(gpus):
        count = len(list(equal))
        if entry.keys() == {"gpu"} and isinstance(entry["gpu"], str):
            yield entry["gpu"] if count == 1 else f"{count}x {entry['gpu']}"
        else:
            yield entry if count == 1 else {**entry, "count": count}


def _notes(cards: Sequence[SeenCard]) -> Iterator[str]:
    for card in cards:
        if card.backend == "rocm" and card.power_limit_w is not None:
            yield (
                f"The chip of card {card.index} may draw {card.power_limit_w:g} W, its board more: state power_limit_w "
                "where it was lowered."
            )
        if (card.used_bytes or 0) > NOTED_USE_BYTES:
            yield (
                f"Other programs use {(card.used_bytes or 0) / GIB:.1f} GiB of card {card.index}: state free_bytes to "
                "plan with the rest."
            )


def _links(readings: Sequence[Reading], rig: dict[str, JsonValue]) -> Iterator[str]:
    """Put what outputs show of links into the rig; say what cannot be told.

    Peer access says nothing of PCI Express between cards that NVLink joins.
    """
    groups = next((reading.nvlink for reading in readings if reading.nvlink is not None), None)
    if groups is not None:
        rig["nvlink"] = [list(group) for group in groups] if groups else False
    peers = [peer for reading in readings for peer in reading.peers]
    apart = [able for first, second, able in peers if not any({first, second} <= set(group) for group in groups or ())]
    if apart and len(set(apart)) == 1:
        rig["p2p"] = apart[0]
    elif apart:
        yield f"{sum(apart)} of {len(apart)} pairs of cards reach each other over PCI Express; p2p is left open."
