"""What holds for every process that answers many questions: how many there may be, how often it looks for cycles."""

import gc
import os
from typing import Final

_GC_THRESHOLDS: Final = (100_000, 50, 50)


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
