"""The card files hold what they were made from: valid, sorted, sourced, dated, every value carried over."""

import csv
import json
import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import tomli

from service.builtin import builtin_folder
from service.catalog.gpu_records import builtin_gpu_facts, iter_gpu_records, record_of, vendors

HARDWARE = builtin_folder("hardware_db")
FAMILIES = sorted((HARDWARE / "gpus").glob("*.toml"))
ROWS = list(csv.DictReader((Path(__file__).parent / "data" / "gpus.csv").read_text("utf-8").splitlines()))
SCHEMA = json.loads((HARDWARE / "gpu_family.schema.json").read_text("utf-8"))
# columns of the table whose key states its unit differently
KEYS = {
    "vram_mib_reported": "vram_reported_mib",
    "memory_bandwidth_gb_s": "memory_bandwidth_gb_per_s",
    "nvlink_gb_s_total_bidir": "nvlink_total_bidirectional_gb_per_s",
    "other_fabric_gb_s": "other_fabric_gb_per_s",
}
FACTS = {facts["slug"]: facts for facts in builtin_gpu_facts()}


def content(path: Path) -> Any:
    """What a TOML file says, with dates as JSON writes them."""
    return json.loads(json.dumps(tomli.loads(path.read_text("utf-8")), default=date.isoformat))


@pytest.mark.parametrize("path", FAMILIES, ids=lambda path: path.stem)
def test_a_family_follows_the_schema(path: Path) -> None:
    """Every file is valid, with formats checked."""
    jsonschema_rs.validate(SCHEMA, content(path), validate_formats=True)


def test_observed_memory_follows_its_schema() -> None:
    """The file of idle devices is valid, and names cards of the catalogue."""
    schema = json.loads((HARDWARE / "idle_memory.schema.json").read_text("utf-8"))
    observed = content(HARDWARE / "idle_memory.toml")
    jsonschema_rs.validate(schema, observed, validate_formats=True)
    assert {row["slug"] for row in observed["idle"]} <= FACTS.keys()
    assert observed["idle"] == sorted(observed["idle"], key=lambda row: (row["slug"], row["backend"]))
    assert observed["shared"] == sorted(
        observed["shared"], key=lambda row: (row["policy"], row["ram_gib"], row["usable_mib"])
    )


@pytest.mark.parametrize("path", FAMILIES, ids=lambda path: path.stem)
def test_a_family_is_sorted(path: Path) -> None:
    """Cards stand by slug, keys in the schema's order, lists in ascending order."""
    gpus = content(path)["gpu"]
    order = list(SCHEMA["$defs"]["gpu"]["properties"])
    assert [gpu["slug"] for gpu in gpus] == sorted(gpu["slug"] for gpu in gpus)
    for gpu in gpus:
        assert list(gpu) == [key for key in order if key in gpu], gpu["slug"]
        for key in ("aliases", "memory_options_gib", "unverified"):
            assert gpu.get(key, []) == sorted(gpu.get(key, [])), (gpu["slug"], key)


def test_every_card_has_a_source_and_a_date() -> None:
    """Sources are addresses, and no record is older than the table it came from or from the future."""
    for record in iter_gpu_records():
        assert record.source_url.startswith("https://"), record.slug
        assert date(2026, 10, 1) <= date.fromisoformat(record.as_of) <= date(2100, 1, 1), record.slug


def test_all_devices_are_there_once() -> None:
    """The files hold the table's 237 devices, each under one slug and one name."""
    assert len(list(builtin_gpu_facts())) == len(ROWS) == 237
    assert FACTS.keys() == {row["slug"] for row in ROWS}
    assert len({facts["name"].casefold() for facts in FACTS.values()}) == 237


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["slug"])
def test_every_value_is_carried_over(row: Mapping[str, str]) -> None:
    """Each cell of the table is in the card's file, and an empty cell is absent."""
    facts = FACTS[row["slug"]]
    for column, cell in row.items():
        if column == "unverified_fields":
            continue
        value = facts.get(KEYS.get(column, column))
        if isinstance(value, bool):
            assert value is (cell == "1")
        elif isinstance(value, int | float):
            assert value == float(cell), column
        else:
            assert (value or "") == cell, column


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["slug"])
def test_what_is_unverified_stays_marked(row: Mapping[str, str]) -> None:
    """Each value that was not re-read at its source says so; more may be marked, none fewer."""
    unverified = set(FACTS[row["slug"]]["unverified"])
    assert {KEYS.get(column, column) for column in row["unverified_fields"].split()} <= unverified
    assert unverified <= {*SCHEMA["$defs"]["gpu"]["properties"], "vendor"}


def test_sizes_are_binary_and_rates_decimal() -> None:
    """24 GB of memory are 24 GiB, 936.2 GB/s are 936.2e9, and the unverified stay marked under their SI names."""
    record = record_of(FACTS["rtx-3090"])
    assert record.vram_bytes == 24 * 1024**3
    assert record.vram_reported_bytes == 24576 * 1024**2
    assert record.memory_bandwidth_bytes_per_s == 936_200_000_000
    assert record.fp16_tensor_dense_flops == pytest.approx(71.17e12, rel=0.01)
    assert record.nvlink_total_bidirectional_bytes_per_s == 112.5e9
    assert record.provenance("vram_bytes").verified
    assert not record.provenance("nvlink").verified
    assert not record_of(FACTS["mi100"]).provenance("memory_bandwidth_bytes_per_s").verified


def test_quantities_end_with_their_unit() -> None:
    """Every numeric field of a record ends with a unit, or counts something."""
    counts = {"devices_per_board", "nvlink_max_gpus", "pcie_gen", "pcie_lanes"}
    unit = re.compile(r"_(bytes|bytes_per_s|flops|ops_per_s|w)$")
    for record in iter_gpu_records():
        for field in record.__dataclass_fields__:
            value = getattr(record, field)
            if isinstance(value, int | float) and not isinstance(value, bool):
                assert field in counts or unit.search(field), field


def test_every_vendor_has_a_default_backend_that_it_offers() -> None:
    """A card without a stated backend gets one that drives it."""
    for record in iter_gpu_records():
        vendor = vendors()[record.vendor]
        assert vendor.default_backend in vendor.backends
        assert vendor.reason
        assert vendor.source
