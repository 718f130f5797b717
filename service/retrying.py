"""Attempts that come again a little later each time, told through the standard library's logging."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import stamina
from stamina.instrumentation import LoggingOnRetryHook, set_on_retry_hooks

# by default they are told through structlog, which unconfigured writes to standard output, where plans go
set_on_retry_hooks([LoggingOnRetryHook])


def attempts(
    again: Callable[[Exception], bool | float], *, most: int, first_wait_s: float, longest_wait_s: float
) -> Iterator[AbstractContextManager[object]]:
    """Contexts of up to `most` attempts; the last, and any whose failure `again` does not want repeated, raises.

    The wait doubles from `first_wait_s` to `longest_wait_s`, with jitter; `again` may give another in seconds.
    """
    return iter(
        stamina.retry_context(
            again,
            attempts=most,
            timeout=None,
            wait_initial=first_wait_s,
            wait_max=longest_wait_s,
            wait_jitter=first_wait_s,
        )
    )
