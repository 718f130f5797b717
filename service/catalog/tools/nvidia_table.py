"""`nvidia-smi` as it is, and `nvidia-smi -L`: cards by index and name."""

import re
from typing import Final

from service.catalog.tools.quantities import bytes_of
from service.catalog.tools.reading import Pasted, Reading, SeenCard

# |   0  NVIDIA GeForce RTX 3090        Off |   00000000:01:00.0 Off |                  N/A |
_NAME: Final = re.compile(r"^\|\s+(\d+)\s+(\S.*?)\s+(?:On|Off|N/A)\s*\|\s*[0-9A-Fa-f]+:[0-9A-Fa-f]{2}:", re.MULTILINE)
# |  0%   40C    P8             22W / 350W |       1MiB /  24576MiB |      0%      Default |
_FIGURES: Final = re.compile(r"^\|[^|]*?(?:[\d.]+W|N/A) / +?([\d.]+)W? *\|\s*(\d+MiB) /\s*(\d+MiB)", re.MULTILINE)
_LISTED: Final = re.compile(r"^GPU (\d+): (.+?) \(UUID: [^)]*\)", re.MULTILINE)


class NvidiaTable:
    """nvidia-smi without arguments."""

    name = "nvidia-smi"

    def read(self, pasted: Pasted) -> Reading | None:
        """Each card's two lines; names that the table cuts off are kept as they are, for the catalogue to refuse."""
        text = pasted.text
        names = list(_NAME.finditer(text))
        cards = []
        for found, following in zip(names, [*names[1:], None], strict=False):
            figures = _FIGURES.search(text, found.end(), following.start() if following else len(text))
            cards.append(
                SeenCard(
                    index=int(found[1]),
                    name=found[2],
                    power_limit_w=float(figures[1]) if figures else None,
                    used_bytes=bytes_of(figures[2]) if figures else None,
                    total_bytes=bytes_of(figures[3]) if figures else None,
                    backend="cuda",
                )
            )
        return Reading(tool=self.name, cards=tuple(cards)) if cards else None


class NvidiaList:
    """nvidia-smi -L."""

    name = "nvidia-smi -L"

    def read(self, pasted: Pasted) -> Reading | None:
        """One line a card."""
        text = pasted.text
        cards = [SeenCard(index=int(found[1]), name=found[2], backend="cuda") for found in _LISTED.finditer(text)]
        return Reading(tool=self.name, cards=tuple(cards)) if cards else None
