"""`nvidia-smi topo -m` and `topo -p2p`: matrices of what lies between cards.

Source: the legends that nvidia-smi prints below them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from service.catalog.tools.quantities import whole_of
from service.catalog.tools.reading import Pasted, Reading, SeenCard

_ESCAPE: Final = re.compile(r"\x1b\[[0-9;]*m")
_HEADER: Final = re.compile(r"^\s*(?:GPU\d+\s+)+")
_GPU: Final = re.compile(r"GPU(\d+)")
_LINK: Final = re.compile(r"X|NV\d+|PIX|PXB|PHB|NODE|SYS|SOC")
_STATE: Final = re.compile(r"X|OK|CNS|GNS|TNS|NS|DR|U")

Matrix = Mapping[tuple[int, int], str]


class NvidiaTopology:
    """nvidia-smi topo -m."""

    name = "nvidia-smi topo -m"

    def read(self, pasted: Pasted) -> Reading | None:
        """Cards that NVLink joins, and each card's NUMA node where there are several."""
        text = pasted.text
        found = _matrix(text, _LINK)
        if found is None:
            return None
        cells, rows = found
        indices = sorted({first for first, _ in cells})
        nodes = {index: _numa_node(rows[index]) for index in indices}
        several = len({node for node in nodes.values() if node is not None}) > 1
        return Reading(
            tool=self.name,
            cards=tuple(SeenCard(index=index, numa_node=nodes[index] if several else None) for index in indices),
            nvlink=_groups(indices, {pair for pair, cell in cells.items() if cell.startswith("NV")}),
        )


class NvidiaPeers:
    """nvidia-smi topo -p2p."""

    name = "nvidia-smi topo -p2p"

    def read(self, pasted: Pasted) -> Reading | None:
        """Which pairs the driver lets reach each other."""
        text = pasted.text
        found = _matrix(text, _STATE)
        if found is None:
            return None
        cells, _ = found
        pairs = sorted((first, second) for first, second in cells if first < second)
        return Reading(
            tool=self.name,
            cards=tuple(SeenCard(index=index) for index in sorted({first for first, _ in cells})),
            peers=tuple((*pair, cells[pair] == "OK") for pair in pairs),
        )


def _matrix(text: str, cell: re.Pattern[str]) -> tuple[Matrix, Mapping[int, Sequence[str]]] | None:
    """Cells of the first matrix of cards all of whose cells match, and what stands behind them in each row."""
    lines = _ESCAPE.sub("", text).splitlines()
    for number, line in enumerate(lines):
        columns = [int(index) for index in _GPU.findall(line)]
        if not _HEADER.match(line) or not columns:
            continue
        rows = dict(_rows(lines[number + 1 :], len(columns)))
        cells = {
            (row, column): value for row, values in rows.items() for column, value in zip(columns, values, strict=False)
        }
        if rows.keys() == set(columns) and all(cell.fullmatch(value) for value in cells.values()):
            return cells, {row: values[len(columns) :] for row, values in rows.items()}
    return None


def _rows(lines: Sequence[str], columns: int) -> Iterator[tuple[int, Sequence[str]]]:
    """Rows of cards below a header, up to the first line that is none."""
    for line in lines:
        label, *values = line.split() or [""]
        found = _GPU.fullmatch(label)
        if found is None or len(values) < columns:
            return
        yield int(found[1]), values


def _numa_node(behind: Sequence[str]) -> int | None:
    """The node in "… 0-31,64-95  0  N/A": what follows the processors' numbers, which follow other devices' cells."""
    plain = [value for value in behind if not _LINK.fullmatch(value)]
    return whole_of(plain[1]) if len(plain) > 1 and plain[1].isdigit() else None


def _groups(indices: Sequence[int], joined: set[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:
    """Cards that hang together over joined pairs, groups of two and more."""
    groups: list[set[int]] = []
    for index in indices:
        near = {index} | {other for pair in joined if index in pair for other in pair}
        touching = [group for group in groups if group & near]
        groups = [group for group in groups if not group & near] + [near.union(*touching)]
    return tuple(sorted(tuple(sorted(group)) for group in groups if len(group) > 1))
