"""Rules and data say where they come from."""

import re
from pathlib import Path

import pytest

from service.catalog.gpu_records import GpuRecord, iter_gpu_records
from tests.structure.repository import ROOT, python_files

# what the planner decides by itself, and ways of computing what other modules state
OWN_DECISIONS = {
    "balanced_split", "block_kinds", "candidates", "choices", "command", "footprint", "layer_sums", "needs",
    "partition", "placed", "placement", "question", "range_sizes", "repetition", "settings", "shape_twins", "speed",
    "weights",
}  # fmt: skip
CITATION = re.compile(r"\bSource:|\b[\w-]+\.(?:cpp|c|h|cu|cuh|m|metal|comp)\b|\bconvert_hf_to_gguf\.py\b")


def rule_files() -> list[Path]:
    """Modules that state an engine's or an architecture's rules."""
    return [
        path
        for folder in ("service/core/engines", "service/core/architectures")
        for path in python_files(folder)
        if path.stem not in {*OWN_DECISIONS, "__init__"}
    ]


@pytest.mark.parametrize("path", rule_files(), ids=str)
def test_rules_cite_their_source(path: Path) -> None:
    """A rule names the file of the engine, the paper or the data that it comes from."""
    assert CITATION.search((ROOT / path).read_text("utf-8"))


@pytest.mark.parametrize("record", tuple(iter_gpu_records()), ids=lambda record: record.slug)
def test_cards_are_sourced_and_dated(record: GpuRecord) -> None:
    """Every card has an address where its values can be read and the date when they were."""
    assert record.source_url.startswith("https://")
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", record.as_of)
