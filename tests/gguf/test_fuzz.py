"""A hundred thousand damaged headers: read or refused, each at once and in little memory."""

import multiprocessing
import resource
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Final

import pytest

from service.core.architectures.hparams import read_hparams
from service.core.model_facts import model_facts
from service.core.model_kinds import model_kind
from service.core.model_roles import bytes_by_role
from service.core.problems import PlanProblem, UnreadableModel
from service.core.units import MIB
from service.gguf.reader import read_header
from tests.gguf.mutations import mutations, seeds

BATCHES: Final = 20
BATCH: Final = 5_000
SLOWEST_S: Final = 0.2
MOST_BYTES: Final = 64 * MIB


def limit_memory() -> None:
    """Let this process grow by 64 MiB from here, where the sound headers are decompressed already."""
    assert seeds()
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    limit = pages * resource.getpagesize() + MOST_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def read_batch(seed: int) -> tuple[Counter[str], float]:
    """What became of one batch, and the most processor time that one header took.

    Anything raised but a problem ends the run: the reader's own for reading, any for what is made of a model.
    """
    outcomes: Counter[str] = Counter()
    slowest_s = 0.0
    for index, content in enumerate(mutations(BATCH, seed)):
        started_s = time.thread_time()
        try:
            # from memory or as a stream, of known or unknown size
            source = BytesIO(content) if index % 2 else content
            model = read_header(source, file_bytes=None if index % 3 else len(content) + 4000)
        except UnreadableModel as refused:
            outcomes["refused" if refused.detail else "refused in silence"] += 1
        else:
            outcomes["read"] += 1
            assert sum(bytes_by_role(model).values()) >= 0
            assert model_kind(model)
            with suppress(PlanProblem):
                assert model_facts(model).parameters >= 0
            # rules are remembered per model, and thousands of models are not what is measured here
            model_facts.cache_clear()
            read_hparams.cache_clear()
        slowest_s = max(slowest_s, time.thread_time() - started_s)
    return outcomes, slowest_s


@pytest.mark.slow
def test_a_hundred_thousand_damaged_headers() -> None:
    """None takes 200 ms of processor time or 64 MiB, and none raises anything but a problem."""
    processes = ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn"), initializer=limit_memory)
    outcomes: Counter[str] = Counter()
    with processes:
        for batch, slowest_s in processes.map(read_batch, range(BATCHES)):
            outcomes += batch
            assert slowest_s < SLOWEST_S
    assert outcomes.total() == BATCHES * BATCH
    assert set(outcomes) == {"read", "refused"}
    # the mutations are neither harmless nor hopeless
    assert min(outcomes.values()) > BATCHES * BATCH // 20


@pytest.mark.slow
def test_the_memory_limit_bites() -> None:
    """What would take more than 64 MiB fails in such a process."""
    with (
        ProcessPoolExecutor(
            max_workers=1, mp_context=multiprocessing.get_context("spawn"), initializer=limit_memory
        ) as processes,
        pytest.raises(MemoryError),
    ):
        processes.submit(bytes, 2 * MOST_BYTES).result()


def test_a_few_hundred_damaged_headers() -> None:
    """The same in little, with every run of the tests."""
    outcomes: Counter[str] = Counter()
    for content in mutations(500, seed=1_000):
        with suppress(UnreadableModel):
            assert read_header(content).architecture
            outcomes["read"] += 1
        outcomes["all"] += 1
    assert 0 < outcomes["read"] < outcomes["all"] == 500
