"""`nvidia-smi -q`: everything about every card, as an indented tree."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from service.catalog.tools.quantities import bytes_of, number_of, whole_of
from service.catalog.tools.reading import Pasted, Reading, SeenCard

_CARD: Final = re.compile(r"^GPU [0-9A-Fa-f]+:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]\s*$", re.MULTILINE)
_LINE: Final = re.compile(r"^( +)(\S.*?)\s*(?::\s+(.*?)\s*)?$")
# the section was called differently before driver 535, and one of the keys
_POWER: Final = ("GPU Power Readings", "Power Readings")
_LIMIT: Final = ("Current Power Limit", "Enforced Power Limit", "Power Limit")

Tree = Mapping[tuple[str, ...], str]


class NvidiaQuery:
    """nvidia-smi -q."""

    name = "nvidia-smi -q"

    def read(self, pasted: Pasted) -> Reading | None:
        """One card for each section that starts with a bus address."""
        text = pasted.text
        titles = list(_CARD.finditer(text))
        ends = [*(title.start() for title in titles[1:]), len(text)]
        cards = [
            _card(index, dict(_leaves(text[title.end() : end])))
            for index, (title, end) in enumerate(zip(titles, ends, strict=False))
        ]
        named = [card for card in cards if card.name is not None]
        return Reading(tool=self.name, cards=tuple(named)) if named else None


def _card(index: int, tree: Tree) -> SeenCard:
    power = next((section for section in _POWER if any(path[0] == section for path in tree)), _POWER[0])
    link = ("PCI", "GPU Link Info")
    generations = [
        whole_of(tree.get((*link, "PCIe Generation", key))) for key in ("Max", "Device Max", "Host Max")
    ]  # fmt: skip
    return SeenCard(
        index=index,
        name=tree.get(("Product Name",)),
        total_bytes=bytes_of(tree.get(("FB Memory Usage", "Total"))),
        used_bytes=bytes_of(tree.get(("FB Memory Usage", "Used"))),
        power_limit_w=next((watts for key in _LIMIT if (watts := number_of(tree.get((power, key))))), None),
        pcie_gen=min([each for each in generations if each], default=None),
        pcie_lanes=whole_of(tree.get((*link, "Link Width", "Current"))),
        backend="cuda",
    )


def _leaves(section: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Path and value of every line with a value; a section ends where another tool's output begins."""
    above: list[tuple[int, str]] = []
    for line in section.splitlines():
        found = _LINE.match(line)
        if found is None:
            if line.strip():
                return
            continue
        depth, key, value = len(found[1]), found[2], found[3]
        while above and above[-1][0] >= depth:
            above.pop()
        if value is None:
            above.append((depth, key))
        else:
            yield (*(name for _, name in above), key), value
