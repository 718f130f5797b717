"""`nvidia-smi --query-gpu=… --format=csv`: a header with the names of the properties, one line a card."""

import csv
import io
import re
from collections.abc import Iterator, Mapping
from typing import Final

from service.catalog.tools.quantities import bytes_of, number_of, whole_of
from service.catalog.tools.reading import Pasted, Reading, SeenCard

_PROPERTY: Final = re.compile(r"([a-z][a-z_.0-9]*)(?: \[(\w+%?|%)\])?")
# newer drivers have both spellings
_NAMES: Final = ("name", "gpu_name")


class NvidiaCsv:
    """nvidia-smi --query-gpu with --format=csv."""

    name = "nvidia-smi --query-gpu --format=csv"

    def read(self, pasted: Pasted) -> Reading | None:
        """Cards of the lines below a header that has their name; index from its column, else by order."""
        text = pasted.text
        lines = text.splitlines()
        for number, line in enumerate(lines):
            header = _header(line)
            if header is not None:
                cards = tuple(_cards(header, lines[number + 1 :]))
                return Reading(tool=self.name, cards=cards) if cards else None
        return None


def _header(line: str) -> list[tuple[str, str]] | None:
    """Properties with their units; None for a line that is no header with the card's name in it."""
    fields = [_PROPERTY.fullmatch(field.strip()) for field in line.split(",")]
    if len(fields) < 2 or any(found is None for found in fields):
        return None
    header = [(found[1], found[2] or "") for found in fields if found is not None]
    return header if any(name in _NAMES for name, _ in header) else None


def _cards(header: list[tuple[str, str]], lines: list[str]) -> Iterator[SeenCard]:
    for number, row in enumerate(csv.reader(io.StringIO("\n".join(lines)), skipinitialspace=True)):
        if len(row) != len(header):
            return
        yield _card(number, {name: (value.strip(), unit) for (name, unit), value in zip(header, row, strict=True)})


def _card(number: int, row: Mapping[str, tuple[str, str]]) -> SeenCard:
    def text(*names: str) -> str | None:
        return next((row[name][0] for name in names if name in row), None)

    def size(name: str) -> int | None:
        return bytes_of(row[name][0], row[name][1] or "MiB") if name in row else None

    index = whole_of(text("index"))
    return SeenCard(
        index=number if index is None else index,
        name=text(*_NAMES),
        total_bytes=size("memory.total"),
        used_bytes=size("memory.used"),
        power_limit_w=number_of(text("power.limit", "enforced.power.limit", "clocks_event_reasons.power.limit")),
        pcie_gen=whole_of(text("pcie.link.gen.max", "pcie.link.gen.gpumax")),
        pcie_lanes=whole_of(text("pcie.link.width.current", "pcie.link.width.max")),
        backend="cuda",
    )
