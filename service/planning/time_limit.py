"""How long one request may plan: what asks for many plans at once ends between two of them."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf

_UNTIL_S: ContextVar[float] = ContextVar("until_s", default=inf)


class OutOfTime(Exception):
    """A request that takes longer than is allowed; it says nothing about its question, so nothing answers instead."""


@contextmanager
def limited_to(limit_s: float) -> Iterator[None]:
    """Let plans inside the block, and in threads that are started from it with its context, begin for so long only."""
    token = _UNTIL_S.set(time.monotonic() + limit_s)
    try:
        yield
    finally:
        _UNTIL_S.reset(token)


def check_time() -> None:
    """Raise OutOfTime where no further plan may begin."""
    if time.monotonic() > _UNTIL_S.get():
        raise OutOfTime
