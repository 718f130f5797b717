"""Cards of the catalogue as rules of power, cooling and links see them."""

import re
from functools import lru_cache
from typing import Final

from service.catalog.gpu_records import GpuRecord
from service.catalog.idle_power import idle_power
from service.core.board import Board, Form

# hardware_db's slot_width → form; a width in slots is a card
_FORMS: Final[dict[str, Form]] = {"SXM": "module", "OAM": "module", "superchip": "module", "SoC": "chip"}
_CONNECTOR: Final = re.compile(r"(?:(\d+)x )?(.+)")


@lru_cache(maxsize=4096)
def board_of(record: GpuRecord) -> Board:
    """The physical card of a record, with figures of the whole board.

    A datacentre card in a slot has no fan of its own: its server blows through it (domain notes on power, section 9).
    """
    form = _FORMS.get(record.slot_width or "", "card" if (record.slot_width or "").isdigit() else None)
    idle_w, loaded_w = idle_power(record.slug, form, record.tdp_w)
    nvlink = record.nvlink_total_bidirectional_bytes_per_s
    return Board(
        form=form,
        segment=record.segment,
        devices=record.devices_per_board,
        recommended_psu_w=record.recommended_psu_w,
        connectors=connectors_of(record.power_connectors),
        slot_width=int(record.slot_width or 0) if form == "card" else None,
        cooled_by_case=form == "card" and record.segment == "datacenter",
        nvlink=record.nvlink,
        nvlink_bytes_per_s=None if nvlink is None else nvlink / 2,
        nvlink_max_gpus=record.nvlink_max_gpus,
        pcie_p2p=record.pcie_p2p,
        system_power_w=record.system_power_w,
        idle_w=idle_w,
        loaded_w=loaded_w,
    )


def connectors_of(text: str | None) -> tuple[tuple[str, int], ...] | None:
    """Read "1x 6-pin + 1x 8-pin" into its sockets; () for "none", None where nothing is known."""
    if text is None:
        return None
    if text == "none":
        return ()
    sockets: dict[str, int] = {}
    for part in text.split(" + "):
        found = _CONNECTOR.fullmatch(part)
        assert found is not None  # noqa: S101 - the pattern takes any text
        sockets[found[2]] = sockets.get(found[2], 0) + int(found[1] or 1)
    return tuple(sockets.items())
