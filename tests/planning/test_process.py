"""A process that answers many questions: how many there may be, and how often it looks for cycles."""

import os
import platform
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

LOOKING = """
import weakref
from service.planning.process import look_among_new, seldom_collect

class Linked:
    pass

seldom_collect()
cycle = Linked()
cycle.itself = cycle
gone = weakref.ref(cycle)
del cycle
seen = []
for _ in range(100):
    look_among_new()
    seen.append(gone() is None)
print(seen[0], seen[-1])
"""

SHARED = "from service.planning.process import share_one_heap; share_one_heap()"
HEAPS = """
import ctypes
import sys
from threading import Barrier, Thread
from service.planning.process import share_one_heap

if sys.argv[1] == "shared":
    share_one_heap()
together = Barrier(4)

def work():
    kept = [bytes(4096) for _ in range(100)]
    together.wait()

threads = [Thread(target=work) for _ in range(4)]
for each in threads:
    each.start()
for each in threads:
    each.join()
libc = ctypes.CDLL(None)
libc.malloc_info(0, ctypes.c_void_p.in_dll(libc, "stdout"))
libc.fflush(None)
"""


def test_no_more_processes_than_processors() -> None:
    """Those that this process may use, of those that there are."""
    assert 1 <= processors() <= (os.cpu_count() or 1)


def test_cycles_are_looked_for_seldom_but_still() -> None:
    """What is there already is left out, and what comes later is still collected."""
    shown = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["True", "True", "True"]


def test_cycles_of_the_last_plans_are_found_soon() -> None:
    """Not after each plan, but long before as many objects were made as are waited for elsewhere."""
    shown = subprocess.run([sys.executable, "-c", LOOKING], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["False", "True"]


def test_threads_share_one_heap() -> None:
    """Memory of every thread comes from the first heap, of which glibc would make more; elsewhere nothing happens."""
    if platform.libc_ver()[0] != "glibc":
        assert subprocess.run([sys.executable, "-c", SHARED], check=True).returncode == 0
        return
    shown = {
        how: subprocess.run([sys.executable, "-c", HEAPS, how], capture_output=True, text=True, check=True).stdout
        for how in ("shared", "apart")
    }
    assert shown["shared"].count("<heap nr=") == 1
    assert shown["apart"].count("<heap nr=") > 1
