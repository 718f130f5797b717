"""Sockets and leads."""

import pytest

from service.catalog.boards import connectors_of
from service.catalog.gpus import builtin_gpus
from service.catalog.power_facts import power_facts
from service.core.power.connectors import boards_of, missing_leads, sockets_of
from service.core.power.slots import slots_needed, stacked_wide_cards

CONNECTORS = power_facts().connectors


@pytest.mark.parametrize(
    ("text", "sockets"),
    [
        ("1x 16-pin", (("16-pin", 1),)), ("2x 8-pin", (("8-pin", 2),)), ("8-pin EPS", (("8-pin EPS", 1),)),
        ("1x 6-pin + 1x 8-pin", (("6-pin", 1), ("8-pin", 1))), ("none", ()), (None, None),
    ],
)  # fmt: skip
def test_sockets_are_read_from_the_catalogue(text: str | None, sockets: tuple[tuple[str, int], ...] | None) -> None:
    """Every way the catalogue writes sockets is understood; what it does not know stays unknown."""
    assert connectors_of(text) == sockets


def test_every_socket_of_the_catalogue_is_known() -> None:
    """No card has a socket without a row."""
    records = builtin_gpus().names.records.values()
    kinds = {kind for record in records for kind, _ in connectors_of(record.power_connectors) or ()}
    assert kinds == CONNECTORS.keys()


@pytest.mark.parametrize(
    ("sockets", "leads", "missing"),
    [
        ({"8-pin": 2}, {"pcie_8pin": 2}, {}),
        ({"8-pin": 3}, {"pcie_8pin": 2}, {"pcie_8pin": 1}),
        ({"16-pin": 1}, {"pcie_16pin": 1}, {}),
        ({"16-pin": 1}, {"pcie_8pin": 3}, {}),
        ({"16-pin": 1}, {"pcie_8pin": 2}, {"pcie_16pin": 1}),
        ({"16-pin": 1, "8-pin": 2}, {"pcie_8pin": 4}, {"pcie_16pin": 1}),
        ({"12-pin": 1}, {"pcie_8pin": 2}, {}),
        ({"8-pin EPS": 1}, {"pcie_8pin": 2}, {}),
        ({"8-pin EPS": 1}, {"pcie_8pin": 1}, {"eps_8pin": 1}),
        ({}, {}, {}),
    ],
)
def test_leads_are_counted_one_a_socket(
    sockets: dict[str, int], leads: dict[str, int], missing: dict[str, int]
) -> None:
    """Native cables come first, makers' adapters take what is left, splitters are none."""
    assert missing_leads(sockets, {"16-pin": 450, "8-pin EPS": 250}, leads, CONNECTORS) == missing


def test_a_board_with_two_devices_is_one_card() -> None:
    """Software sees several devices on some boards, the case and the supply see one."""
    by_devices = {record.slug: record.devices_per_board for record in builtin_gpus().names.records.values()}
    slug, devices = next((slug, devices) for slug, devices in by_devices.items() if devices > 1)
    gpus = builtin_gpus().gpus(slug)
    assert len(gpus) == devices
    assert sum(boards_of(gpu.board for gpu in gpus).values()) == 1


def test_slots_are_counted_where_all_are_known() -> None:
    """Widths add up; a module takes none; one unknown width makes the sum unknown."""
    three = boards_of(gpu.board for gpu in builtin_gpus().gpus("3x rtx-3090"))
    assert slots_needed(three) == 9
    assert [stacked_wide_cards(three, slots) for slots in (9, 10, 11)] == [3, 2, 0]
    assert slots_needed(boards_of(gpu.board for gpu in builtin_gpus().gpus("8x h100-sxm5-80gb"))) == 0
    laptop = boards_of(gpu.board for gpu in builtin_gpus().gpus("rtx-4090-laptop"))
    assert slots_needed(laptop) is None
    assert sockets_of(three)[0] == {"12-pin": 3}
