"""How much one caller may ask in a while."""

import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from service.planning.access.use import Use

Given = TypeVar("Given")
_RATE: Final = re.compile(r"([1-9][0-9]{0,8})/(second|minute|hour)")
_SECONDS: Final = {"second": 1, "minute": 60, "hour": 3600}
MOST_CALLERS: Final = 100_000
ALONE_AFTER_S: Final = 5.0
"""After so long without the others, what passed here and there is not added up any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """`quota` units in any `window_s` seconds."""

    quota: int
    window_s: int

    @classmethod
    def of(cls, text: str) -> "Rate":
        """Read "600/minute"; raises ValueError for anything else."""
        found = _RATE.fullmatch(text)
        if found is None:
            raise ValueError("a rate is a number and second, minute or hour: 600/minute")
        return cls(quota=int(found[1]), window_s=_SECONDS[found[2]])


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What a caller has left. reset_s: until all is there again; wait_s: until what was refused would pass, else 0."""

    remaining: int
    reset_s: float
    wait_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What passed since the report before, by caller, and until when: moments of the throttle's own clock."""

    at_s: float
    uses: Mapping[str, Use]


class Throttle:
    """Counts what callers use, by the generic cell rate algorithm: one moment per caller, no window that starts anew.

    Time is the monotonic clock's, so that a clock that is set back or forth refuses and frees nobody. Of more than
    `MOST_CALLERS` at once the one that was quiet longest is forgotten. For one thread, an event loop's.
    No library: `limits` 5.8 counts in memory by the wall clock and lets a thread look through all callers after each
    change, which took 0.2 ms of a processor a request with ten callers and 4.8 ms with a hundred thousand (2026-11-30).
    What passes is kept for a report to other processes, whose reports come back as `learned`.
    Source: ITU-T I.371 (2004), annex A (the algorithm as virtual scheduling).
    """

    def __init__(self, rate: Rate, clock_s: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self._unit_s = rate.window_s / rate.quota
        self.clock_s = clock_s
        # the moment at which a caller's use is worked off
        self._until_s: OrderedDict[str, float] = OrderedDict()
        # None as long as nobody asks for reports
        self._untold: OrderedDict[str, Use] | None = None
        self._told_at_s = clock_s()

    def charge(self, caller: str, cost: int) -> Standing:
        """Take `cost` units from a caller, or nothing where so many are not left; no cost is above the whole quota."""
        now_s, cost_s = self.clock_s(), min(cost, self.rate.quota) * self._unit_s
        used_until_s = max(self._until_s.get(caller, now_s), now_s)
        until_s = used_until_s + cost_s
        wait_s = until_s - now_s - self.rate.window_s
        if wait_s > _ROUNDING_S:
            return self._standing(used_until_s - now_s, wait_s)
        _put(self._until_s, caller, until_s)
        if self._untold is not None:
            _add(self._untold, caller, Use(added_s=cost_s, until_s=now_s + cost_s))
        return self._standing(until_s - now_s, 0.0)

    def report(self) -> Report:
        """What passed since the report before, or nothing the first time; `learned` or `returned` gets it back.

        After a while without the others each process has given callers the whole rate by itself: that is not added up,
        so that nobody waits for it; what is not worked off here still counts.
        """
        now_s = self.clock_s()
        uses: Mapping[str, Use] = self._untold or {}
        self._untold = OrderedDict()
        if now_s - self._told_at_s <= ALONE_AFTER_S:
            return Report(at_s=now_s, uses=uses)
        return Report(at_s=now_s, uses={caller: replace(use, added_s=0.0) for caller, use in uses.items()})

    def returned(self, report: Report) -> None:
        """Take a report back that reached nobody."""
        later: Mapping[str, Use] = self._untold or {}
        self._untold = OrderedDict(report.uses)
        for caller, use in later.items():
            _add(self._untold, caller, use)

    def learned(self, report: Report, used_s: Mapping[str, float]) -> None:
        """Go on with what all processes let through: seconds from now until it is worked off, by caller."""
        self._told_at_s, now_s = report.at_s, self.clock_s()
        for caller, seconds in used_s.items():
            untold = None if self._untold is None else self._untold.get(caller)
            _put(self._until_s, caller, now_s + seconds if untold is None else untold.after(now_s + seconds))

    def _standing(self, used_s: float, wait_s: float) -> Standing:
        remaining = (self.rate.window_s - used_s) / self._unit_s
        return Standing(remaining=max(0, int(remaining + _ROUNDING_S)), reset_s=used_s, wait_s=wait_s)


_ROUNDING_S: Final = 1e-6


def _add(uses: OrderedDict[str, Use], caller: str, later: Use) -> None:
    earlier = uses.get(caller)
    _put(uses, caller, later if earlier is None else earlier.then(later))


def _put(callers: OrderedDict[str, Given], caller: str, value: Given) -> None:
    """Set what is known of a caller, and forget the one that was quiet longest where there are too many."""
    callers[caller] = value
    callers.move_to_end(caller)
    if len(callers) > MOST_CALLERS:
        callers.popitem(last=False)
