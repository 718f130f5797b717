"""Trying again where that can help, a little later each time and never past the deadline."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import httpcore2

from service.core.problems import PlanProblem
from service.remote.deadline import Deadline
from service.remote.problems import ModelHostTimeout, ModelHostUnavailable
from service.retrying import attempts

ATTEMPTS = 4
_LONGEST_WAIT_S = 5.0
Result = TypeVar("Result")


class Transient(Exception):
    """A failure that another attempt may not meet; `problem` is what it is where it stays."""

    def __init__(self, problem: PlanProblem, retry_after_s: float | None = None) -> None:
        super().__init__(problem.detail)
        self.problem = problem
        self.retry_after_s = retry_after_s


def persistently(attempt: Callable[[], Result], deadline: Deadline, first_wait_s: float) -> Result:
    """Call `attempt` until it succeeds, fails for good, or time or attempts are up; raises PlanProblem.

    The wait doubles from `first_wait_s`, with jitter; a host's Retry-After takes its place.
    """

    def again(failure: Exception) -> bool | float:
        if not isinstance(failure, Transient) or deadline.remaining_s() < first_wait_s:
            return False
        if failure.retry_after_s is None:
            return True
        return failure.retry_after_s if failure.retry_after_s < deadline.remaining_s() else False

    try:
        for context in attempts(again, most=ATTEMPTS, first_wait_s=first_wait_s, longest_wait_s=_LONGEST_WAIT_S):
            with context:
                return attempt()
    except Transient as failure:
        raise failure.problem from None
    raise AssertionError("the last attempt either returns or raises")


@contextmanager
def transport_failures(host: str) -> Iterator[None]:
    """Turn what connections raise in the block into Transient failures."""
    try:
        yield
    except httpcore2.TimeoutException:
        raise Transient(
            ModelHostTimeout(f"{host} did not answer in time. Try again, or download the file and import it.")
        ) from None
    except (httpcore2.NetworkError, httpcore2.ProtocolError) as error:
        raise Transient(
            ModelHostUnavailable(f"The connection to {host} failed: {str(error)[:200] or type(error).__name__}.")
        ) from None
