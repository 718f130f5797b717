"""A process that answers many questions: how many there may be, and how often it looks for cycles."""

import os
import subprocess
import sys

from service.planning.process import processors

CHILD = """
import gc
from service.planning.process import seldom_collect

before = gc.get_threshold()
seldom_collect()
print(gc.get_freeze_count() > 0, all(now > then for now, then in zip(gc.get_threshold(), before)), gc.isenabled())
"""


def test_no_more_processes_than_processors() -> None:
    """Those that this process may use, of those that there are."""
    assert 1 <= processors() <= (os.cpu_count() or 1)


def test_cycles_are_looked_for_seldom_but_still() -> None:
    """What is there already is left out, and what comes later is still collected."""
    shown = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["True", "True", "True"]
