"""`rocm-smi`: lines "GPU[0] : Card Series: …" of its options, JSON or CSV of the same, limits of its short table."""

import csv
import re
from collections.abc import Iterator, Mapping
from typing import Final

from pydantic_core import from_json

from service.catalog.tools.quantities import number_of
from service.catalog.tools.reading import Pasted, Reading, SeenCard
from service.core.problems import InvalidRequest

_LINE: Final = re.compile(r"^GPU\[(\d+)\]\s*:\s*(.+?)\s*:\s+(.*?)\s*$", re.MULTILINE)
_CARD: Final = re.compile(r"card(\d+)")
_TABLE: Final = re.compile(r"^device,.*$(?:\r?\n^card\w+,.*$)+", re.MULTILINE)
# 0  1  0x744c, 45560  41.0°C  26.0W  N/A, N/A, 0  5Mhz  96Mhz  0%  auto  327.0W  0%  0%
_ROW: Final = re.compile(
    r"^(\d+)\s.*\s(?:auto|high|low|manual|unknown)\s+(N/A|[\d.]+W)\s+\S+%\s+\S+%\s*$", re.MULTILINE
)
_TITLE: Final = re.compile(r"ROCm System Management Interface", re.IGNORECASE)
_SERIES: Final = ("card series", "device name", "card model")
_TOTAL: Final = "vram total memory (b)"
_USED: Final = "vram total used memory (b)"
_LIMIT: Final = ("max graphics package power (w)", "power cap (w)")


class RocmSmi:
    """rocm-smi."""

    name = "rocm-smi"

    def read(self, pasted: Pasted) -> Reading | None:
        """Cards by what the options print of them.

        Raises InvalidRequest where the output is rocm-smi's and names no card.
        """
        text = pasted.text
        values = _values(text, pasted.whole)
        limits = {int(found[1]): number_of(found[2]) for found in _ROW.finditer(text)} if _TITLE.search(text) else {}
        if not values and not limits:
            return None
        named = {index: facts for index, facts in values.items() if _series(facts)}
        if not named:
            raise InvalidRequest(
                "This output of rocm-smi names no card: run rocm-smi --showproductname --showmeminfo vram "
                "--showmaxpower and paste all of it.",
                fields=("text",),
            )
        return Reading(
            tool=self.name,
            cards=tuple(_card(index, facts, limits.get(index)) for index, facts in sorted(named.items())),
        )


def _values(text: str, whole: str) -> Mapping[int, Mapping[str, str]]:
    """What each card's lines or JSON object say, keys in lower case."""
    values: dict[int, dict[str, str]] = {}
    for found in _LINE.finditer(text):
        values.setdefault(int(found[1]), {}).setdefault(found[2].lower(), found[3])
    for card, facts in (*_json(whole).items(), *_tables(text)):
        number = _CARD.fullmatch(card)
        if number is not None and isinstance(facts, dict):
            own = values.setdefault(int(number[1]), {})
            own.update({key.lower().rstrip(":"): str(value) for key, value in facts.items()})
    return values


def _json(whole: str) -> Mapping[str, object]:
    """The JSON object that was pasted, an empty one where there is none."""
    start, end = whole.find("{"), whole.rfind("}")
    try:
        table = from_json(whole[start : end + 1]) if 0 <= start < end else {}
    except ValueError:
        return {}
    return table if isinstance(table, dict) else {}


def _tables(text: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    """What --csv prints of each card, under the names of its columns."""
    for found in _TABLE.finditer(text):
        for row in csv.DictReader(found[0].splitlines(), restval="", restkey="beyond"):
            yield row.pop("device"), {key: value for key, value in row.items() if isinstance(value, str)}


def _series(facts: Mapping[str, str]) -> str | None:
    """The card's name; an address in its place, as older versions print for unknown cards, is none."""
    found = (facts[key] for key in _SERIES if key in facts)
    return next((name for name in found if name and not name.startswith("0x") and name != "N/A"), None)


def _card(index: int, facts: Mapping[str, str], table_limit_w: float | None) -> SeenCard:
    total, used = number_of(facts.get(_TOTAL)), number_of(facts.get(_USED))
    limit_w = next((number_of(facts[key]) for key in _LIMIT if key in facts), table_limit_w)
    return SeenCard(
        index=index,
        name=_series(facts),
        total_bytes=None if total is None else int(total),
        used_bytes=None if used is None else int(used),
        power_limit_w=limit_w,
        backend="rocm",
    )
