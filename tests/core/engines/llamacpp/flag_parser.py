"""A parser of llama.cpp's command lines, made from the help of its programs and the changes to it over time."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

HELP: Mapping[str, Any] = json.loads((Path(__file__).parent / "llamacpp_flags.json").read_text())
NEWEST = date(2026, 10, 31)

# flags of each program and the day since which it knows them, by pull request of ggml-org/llama.cpp
SINCE = {
    "llama-server": {
        "-ub": date(2024, 3, 14),  # 6017
        "-fa": date(2024, 4, 30),  # 5021
        "-dev": date(2024, 11, 25),  # 10497
        "-ot": date(2025, 4, 2),  # 11397
        "--swa-full": date(2025, 5, 1),  # 13194
        "--mmproj": date(2025, 5, 9),  # 12898
        "-kvu": date(2025, 7, 16),  # 14363
        "-ncmoe": date(2025, 8, 4),  # 15077
        "-fit": date(2025, 12, 1),  # 16653
        "--spec-type": date(2026, 5, 16),  # 22964
    },
    "llama-bench": {
        "-ub": date(2024, 3, 14),  # 6017
        "-fa": date(2024, 4, 30),  # 5021
        "-ot": date(2025, 4, 27),  # 12922
        "-d": date(2025, 4, 28),  # 13096
        "-ncmoe": date(2025, 9, 12),  # 15952
        "-dev": date(2025, 9, 17),  # 16039
    },
}
WORDS = re.compile(r"[a-z0-9_+-]+(?:[|,][a-z0-9_+-]+)+")


class Refused(Exception):
    """What the program would exit on."""


def matching(pattern: str) -> Callable[[str], bool]:
    """Values that a pattern describes as a whole."""
    return lambda value: re.fullmatch(pattern, value) is not None


INTEGER, INTEGERS, SHARE = r"-?\d+", r"\d+(,\d+)*", r"\d+(\.\d+)?(e[+-]?\d+)?"
CACHE_TYPES = next(set(flag["values"]) for flag in HELP["llama-server"] if "-ctk" in flag["names"])
# what the help calls N or leaves open, as the programs read it
VALUES: Mapping[tuple[str, str], Callable[[str], bool]] = {
    ("llama-server", "-ngl"): matching(rf"{INTEGER}|auto|all"),
    ("llama-server", "-ngld"): matching(rf"{INTEGER}|auto|all"),
    ("llama-server", "-ts"): matching(rf"{SHARE}(,{SHARE}){{0,14}}"),
    ("llama-server", "-ot"): matching(r"[^=,]*=[^,]+(,[^=,]*=[^,]+)*"),
    ("llama-server", "-otd"): matching(r"[^=,]*=[^,]+(,[^=,]*=[^,]+)*"),
    ("llama-server", "-dev"): matching(r"none|[A-Za-z]+\d+(,[A-Za-z]+\d+)*"),
    ("llama-server", "--spec-type"): matching(r"draft-(simple|mtp|eagle3|dflash|dspark)"),
    # ggml_type_from_name, tools/llama-bench/llama-bench.cpp:496-523, knows all but one
    ("llama-bench", "-ctk"): (CACHE_TYPES - {"f32"}).__contains__,
    ("llama-bench", "-ctv"): (CACHE_TYPES - {"f32"}).__contains__,
    ("llama-bench", "-ts"): matching(rf"{SHARE}(/{SHARE}){{0,15}}"),
    ("llama-bench", "-ot"): matching(r"[^=,;]*=[^,;]+(;[^=,;]*=[^,;]+)*"),
    ("llama-bench", "-dev"): matching(r"none|[A-Za-z]+\d+(/[A-Za-z]+\d+)*"),
    ("llama-bench", "-pg"): matching(r"\d+,\d+"),
    ("llama-bench", "-ngl"): matching(INTEGER),
    ("llama-bench", "-m"): matching(r"[^,]+"),
}


@dataclass(frozen=True)
class Option:
    """One flag: all its names, and what its value may be; None for a switch."""

    names: tuple[str, ...]
    accepts: Callable[[str], bool] | None


def options(program: str, as_of: date) -> Mapping[str, Option]:
    """Every flag of a program of that day, by each of its names."""
    tool = "llama-server" if program == "server" else program
    too_new = {name for name, since in SINCE[tool].items() if as_of < since}
    known = [
        _option(tool, flag["names"], flag, as_of) for flag in HELP[tool] if not too_new.intersection(flag["names"])
    ]
    return {name: option for option in known for name in option.names}


def parse(argv: Sequence[str], as_of: date = NEWEST) -> Mapping[str, str | None]:
    """Flags as they are written, with their values; None for a switch.

    Raises Refused for an unknown program or flag, a missing or impossible value, or a flag given twice.
    """
    program, *words = argv
    if program != "llama-bench" and (program == "server") is not (as_of < date(2024, 6, 13)):  # 7809
        raise Refused(f"no program {program}")
    known, found, rest = options(program, as_of), dict[str, str | None](), iter(words)
    said: set[tuple[str, ...]] = set()
    for word in rest:
        if word not in known:
            raise Refused(f"{program} has no {word}")
        option, value = known[word], None
        if option.accepts is not None:
            value = next(rest, None)
            if value is None or not option.accepts(value):
                raise Refused(f"{word} does not take {value!r}")
        if option.names in said:
            raise Refused(f"{word} is given twice")
        said.add(option.names)
        found[word] = value
    return found


def _option(tool: str, names: Sequence[str], flag: Mapping[str, Any], as_of: date) -> Option:
    accepts = _value(tool, names, flag)
    if "-fa" in names and tool == "llama-server" and as_of < date(2025, 8, 30):  # 15434
        accepts = None
    elif "-fa" in names and tool == "llama-bench" and as_of < date(2026, 5, 26):  # 23714
        accepts = matching("0|1")
    elif "-ngl" in names and as_of < date(2025, 12, 1):  # 16653
        accepts = matching(INTEGER)
    return Option(names=tuple(names), accepts=accepts)


def _value(tool: str, names: Sequence[str], flag: Mapping[str, Any]) -> Callable[[str], bool] | None:
    """What a flag takes: by name where the help only says N, else what its placeholder or its list of values says."""
    for name in names:
        if (tool, name) in VALUES:
            return VALUES[tool, name]
    placeholder = flag["value"]
    if placeholder is None:
        return None
    if "values" in flag:
        return set(flag["values"]).__contains__
    words = WORDS.search(placeholder)
    if words is not None:
        return set(re.split(r"[|,]", words[0])).__contains__
    if placeholder == "N":
        return matching(INTEGER)
    return matching(INTEGERS) if placeholder == "<n>" else matching(r".+")
