"""Requests that were seen, so that what is sent twice is answered once."""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Final

# Slack's last attempt comes an hour after the first; older replays fail by their time stamp.
# Source: docs.slack.dev, Events API, "Retries", 2026-11
REMEMBERED_S: Final = 2 * 3600.0
MOST_REMEMBERED: Final = 20_000


class Seen:
    """Marks of requests by this process's clock; safe to share between threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since_s: OrderedDict[str, float] = OrderedDict()
        self._lock = Lock()

    def is_new(self, marks: Iterable[str]) -> bool:
        """Whether none of the marks was seen within two hours; remembers all of them."""
        with self._lock:
            now_s = self._clock()
            while self._since_s and (
                len(self._since_s) > MOST_REMEMBERED or next(iter(self._since_s.values())) < now_s - REMEMBERED_S
            ):
                self._since_s.popitem(last=False)
            marks = list(marks)
            is_new = not any(mark in self._since_s for mark in marks)
            for mark in marks:
                self._since_s.setdefault(mark, now_s)
            return is_new
