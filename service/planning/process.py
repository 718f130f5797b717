"""What holds for every process that answers many questions: how many there may be, how often it looks for cycles."""

import ctypes
import gc
import os
from contextlib import suppress
from itertools import count
from typing import Final

# M_ARENA_MAX of glibc's malloc.h; a libc without it answers 0 or has no such function
_ARENA_MAX: Final = -8
_GC_THRESHOLDS: Final = (100_000, 50, 50)
_PLANS_BETWEEN_LOOKS: Final = 50
_plans: Final = count(1)


def processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def seldom_collect() -> None:
    """Look for cycles seldom, and never among what is there already.

    A plan makes hundreds of objects and hardly a cycle: looking as often as Python does by itself takes a fifth of the
    time of a plan and finds nothing (benchmarks/plan.py).
    """
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


def look_among_new() -> None:
    """Look for cycles among what the last plans made, every fiftieth time: to be called after each plan of a request.

    By itself Python would do so once in some 3,000 plans, as many objects are given back as are made, and answer nobody
    for 50 ms meanwhile: of 8,000 different plans the longest pause was 52 ms, and 2 ms is usual this way, at the same
    time in all.
    """
    if next(_plans) % _PLANS_BETWEEN_LOOKS == 0:
        gc.collect(0)


def share_one_heap() -> None:
    """Let all threads take memory from one heap instead of up to eight a processor, each of which keeps what it had.

    Threads of Python take it one after the other anyway; a worker under load stays 13 MiB smaller
    (benchmarks/service_load.py). Does nothing where the C library has no such choice.
    Source: mallopt(3), M_ARENA_MAX.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)
