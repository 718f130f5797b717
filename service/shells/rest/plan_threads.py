"""Threads for planning alone, so that requests that wait for the database hold up no plan."""

from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import Request

from service.planning.process import look_among_new

PLAN_THREADS = 40
"""As many as the framework has for everything else."""

P = ParamSpec("P")
T = TypeVar("T")


async def in_plan_thread(request: Request, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call what plans, in a thread that no request waits in for the database."""
    limiter: CapacityLimiter = request.app.state.plan_threads
    try:
        return await to_thread.run_sync(partial(call, *args, **kwargs), limiter=limiter)
    finally:
        look_among_new()
