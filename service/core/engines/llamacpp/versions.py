"""Which of llama.cpp's rules held when: merged changes that alter an answer, by date or build."""

import re
from bisect import bisect_right
from calendar import monthrange
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from typing import Final

from service.core.engines.llamacpp.changes import CHANGES, Rule
from service.core.problems import InvalidRequest

__all__ = ["BUILD_DATES", "CHANGES", "GGUF_SINCE", "NEWEST", "Rule", "VersionRules", "build_date", "version_rules"]

BUILD_DATES: Final = (
    (2824, date(2024, 5, 9)),
    (5237, date(2025, 5, 4)),
    (5922, date(2025, 7, 18)),
    (6895, date(2025, 10, 31)),
    (7079, date(2025, 11, 16)),
    (7423, date(2025, 12, 15)),
    (7948, date(2026, 2, 5)),
    (8763, date(2026, 4, 12)),
    (8829, date(2026, 4, 18)),
    (9272, date(2026, 5, 25)),
    (10621, date(2026, 8, 15)),
)
"""Builds whose date is known, for interpolation; beyond the ends the nearest segment's rate goes on.

Source: release logs of ggml-org/llama.cpp as quoted in public benchmark logs; only the month is known of b2824, b7423,
b7948 and b10621.
"""

GGUF_SINCE: Final = date(2023, 8, 21)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRules:
    """The rules of one llama.cpp; `as_of` is its date, None for the newest known."""

    as_of: date | None = None

    def has(self, rule: Rule) -> bool:
        """Whether the rule held."""
        return self.as_of is None or self.as_of >= _SINCE[rule]


_SINCE: Final = {change.rule: change.since for change in CHANGES}
NEWEST: Final = VersionRules()


def build_date(build: int) -> date:
    """Date of a build number, by linear interpolation of builds whose date is known."""
    numbers = [number for number, _ in BUILD_DATES]
    right = min(max(bisect_right(numbers, build), 1), len(numbers) - 1)
    (low, low_day), (high, high_day) = BUILD_DATES[right - 1], BUILD_DATES[right]
    days = (high_day - low_day).days * (build - low) / (high - low)
    return low_day + timedelta(days=round(days))


@lru_cache(maxsize=1024)
def version_rules(version: str | None, as_of: str | None) -> VersionRules:
    """Rules of the build `version` ("b8829") or, without one, of the date `as_of` ("YYYY-MM" or "YYYY-MM-DD").

    A month stands for its last day. Neither given means the newest known.
    Raises `InvalidRequest` for what is neither a build nor a date, or lies before GGUF files.
    """
    if version is not None:
        return VersionRules(as_of=_checked(build_date(_build(version)), "engine.version", version))
    if as_of is not None:
        return VersionRules(as_of=_checked(_day(as_of), "engine.date", as_of))
    return NEWEST


def _build(version: str) -> int:
    match = re.fullmatch(r"b(\d{1,6})(?:[ -].*)?", version.strip())
    if match is None:
        raise InvalidRequest(
            f"llama.cpp version {version!r} is not a build: write it like b8829, or give engine.date as YYYY-MM",
            fields=("engine.version",),
        )
    return int(match[1])


def _day(text: str) -> date:
    match = re.fullmatch(r"(\d{4})-(\d{2})(?:-(\d{2}))?", text.strip())
    if match is not None and int(match[1]) >= 1 and 1 <= int(match[2]) <= 12:
        year, month = int(match[1]), int(match[2])
        last_day = monthrange(year, month)[1]
        day = last_day if match[3] is None else int(match[3])
        if 1 <= day <= last_day:
            return date(year, month, day)
    raise InvalidRequest(f"date {text!r} is not a date: write it as YYYY-MM or YYYY-MM-DD", fields=("engine.date",))


def _checked(day: date, field: str, stated: str) -> date:
    if day < GGUF_SINCE:
        raise InvalidRequest(
            f"{stated!r} is before llama.cpp read GGUF files (August 2023): name a later build or date", fields=(field,)
        )
    return day
