"""Files of power, platforms and idle cards: valid, sorted, sourced."""

import json
from collections.abc import Mapping
from datetime import date
from typing import Any

import jsonschema_rs
import pytest
import tomli

from service.builtin import builtin_folder
from service.catalog.boards import board_of
from service.catalog.gpus import builtin_gpus
from service.catalog.power_facts import platform_named, power_facts

HARDWARE = builtin_folder("hardware_db")


def content(name: str) -> Mapping[str, Any]:
    """What a TOML file of hardware_db says, with dates as JSON writes them."""
    return json.loads(json.dumps(tomli.loads((HARDWARE / name).read_text("utf-8")), default=date.isoformat))  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", ["power", "platforms", "idle_power"])
def test_a_file_follows_its_schema(name: str) -> None:
    """Every file is valid, so every figure has its source."""
    schema = json.loads((HARDWARE / f"{name}.schema.json").read_text("utf-8"))
    jsonschema_rs.validate(schema, content(f"{name}.toml"), validate_formats=True)


def test_rows_are_sorted() -> None:
    """Idle cards stand by slug, connectors by kind, classes by name, sizes and curves ascending."""
    power, idle = content("power.toml"), content("idle_power.toml")["idle"]
    for rows, key in ((idle, "slug"), (power["connector"], "kind"), (power["efficiency"], "name")):
        assert [row[key] for row in rows] == sorted(row[key] for row in rows)
    assert power["psu"]["standard_sizes_w"] == sorted(power["psu"]["standard_sizes_w"])
    for row in power["efficiency"]:
        assert row["curve"] == sorted(row["curve"])


def test_idle_cards_are_in_the_catalogue() -> None:
    """Every idle figure belongs to a card, and none is above the card's own power."""
    records = builtin_gpus().names.records
    for row in content("idle_power.toml")["idle"]:
        assert row["idle_w"] <= row.get("loaded_w", row["idle_w"]) < (records[row["slug"]].tdp_w or 1e9)


def test_every_card_has_a_board() -> None:
    """Forms, widths, idle draw and NVLink rates of all cards of the catalogue make sense."""
    for record in builtin_gpus().names.records.values():
        board = board_of(record)
        assert (board.form == "card") == (board.slot_width is not None)
        assert board.nvlink != "none" or board.nvlink_bytes_per_s is None
        assert board.loaded_w is None or board.idle_w is None or board.loaded_w >= board.idle_w
        assert not (board.cooled_by_case and board.form != "card")


@pytest.mark.parametrize(
    ("cpu", "platform"),
    [
        ("Ryzen 9 7950X", "am5"), ("AMD Ryzen 7 9800X3D 8-Core Processor", "am5"), ("Ryzen 9 5950X", "am4"),
        ("AMD Ryzen Threadripper PRO 5975WX", "wrx90"), ("Threadripper 7970X", "trx50"),
        ("AMD EPYC 7302 16-Core Processor", "sp3"), ("EPYC 9654", "sp5"), ("EPYC 9755", "sp5"), ("EPYC 7F52", "sp3"),
        ("Intel(R) Core(TM) i9-14900K", "lga1700"), ("Core i7 12700", "lga1700"), ("Core Ultra 9 285K", "lga1851"),
        ("Intel Xeon w9-3495X", "w790"), ("Xeon W-3465X", "w790"), ("Xeon E5-2690 v4", None),
        ("Ryzen AI Max+ 395", None), ("a fast one", None), ("Core i9-10900K", None),
    ],
)  # fmt: skip
def test_processors_are_told_by_their_names(cpu: str, platform: str | None) -> None:
    """A processor belongs to the family its number says, or to none."""
    assert platform_named(cpu) == platform
    assert platform is None or platform in power_facts().platforms
