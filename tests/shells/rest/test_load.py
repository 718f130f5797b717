"""What a question costs the service, beside an endpoint of the same framework that does nothing.

Ratios of CPU times that the servers themselves used, in turns: they do not depend on what else the machine does.
`python -m benchmarks.service_load` measures requests per second, latencies, starts and memory.
"""

import json
import statistics
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import httpx2
import pytest

from benchmarks.load.empty import ANSWER_FILE, FACTORY
from benchmarks.load.questions import different_questions, repeated_question
from benchmarks.load.server import Server, empty_server, rigfit_server
from service.core.units import MIB
from tests.databases import Databases, migrate_and_seed

ROUNDS, REQUESTS = 5, 300
# 1.1 to 1.6 on a busy machine; what this keeps out took 3 and more: a thread for each dependency, a plan made anew
MOST_OF_THE_SAME = 2.5
MOST_RESIDENT_BYTES = 200 * MIB


@pytest.fixture(scope="module")
def servers(sqlite: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    """The service, and the application that does nothing but send the same bytes."""
    answer = tmp_path_factory.mktemp("load") / "answer.json"
    environment = {
        "RIGFIT_DATABASE_URL": sqlite.copy_of("seeded", migrate_and_seed),
        "RIGFIT_ACCESS_LOG": "false",
        ANSWER_FILE: str(answer),
    }
    body = json.dumps(repeated_question()).encode()
    with ExitStack() as stack:
        service = stack.enter_context(rigfit_server(environment, 1, body))
        answer.write_bytes(httpx2.post(f"{service.url}/plan", json=repeated_question()).content)
        yield service, stack.enter_context(empty_server(FACTORY, environment, 1, body))


def cpu_s(server: Server, path: str, questions: Sequence[dict[str, object]]) -> float:
    """CPU time that a server takes for one of these questions."""
    with httpx2.Client(base_url=server.url, timeout=60) as client:
        before_s = server.cpu_s()
        for question in questions:
            assert client.post(path, json=question).status_code == 200
        return (server.cpu_s() - before_s) / len(questions)


def test_a_question_asked_again_costs_little_more_than_its_bytes(servers: tuple[Server, Server]) -> None:
    """Reading it, finding the answer and sending it take at most 2.5 times what sending such an answer takes."""
    service, empty = servers
    same = [repeated_question()] * REQUESTS
    ratios = [cpu_s(service, "/plan", same) / cpu_s(empty, "/bytes", same) for _ in range(ROUNDS)]
    assert statistics.median(ratios) <= MOST_OF_THE_SAME, ratios


def test_memory_stays_within_bounds(servers: tuple[Server, Server]) -> None:
    """After questions about eight models on four kinds of card, none like another, a worker holds 200 MiB at most."""
    service, _ = servers
    cpu_s(service, "/plan", list(different_questions(600, seed=7)))
    assert service.resident_bytes() <= MOST_RESIDENT_BYTES
