"""Attempts that come again a little later each time, told through the standard library's logging."""

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import stamina
from stamina.instrumentation import RetryDetails, set_on_retry_hooks

log = logging.getLogger(__name__)


def _tell(details: RetryDetails) -> None:
    """Say what failed, in one line, and when it is tried again."""
    cause = next(iter(str(details.caused_by).splitlines()), "") or type(details.caused_by).__name__
    log.warning("attempt %d failed, the next is in %.1f s: %s", details.retry_num, details.wait_for, cause[:200])


# by default attempts are told through structlog, which unconfigured writes to standard output, where plans go
set_on_retry_hooks([_tell])


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
