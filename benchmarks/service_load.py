"""How many questions a second the service answers, beside empty endpoints: `python -m benchmarks.service_load`.

Two servers run side by side, both started by the function behind `rigfit serve`: the service, on a seeded SQLite file,
and an application of FastAPI with two endpoints that read a question and send a plan of the same size, one from bytes
that lie ready, one as FastAPI writes an object. Windows of full load take turns among them, so that whatever else the
machine does meets all alike; ratios are of windows of the same round. wrk sends (Debian's package of that name).

Latency is measured at 80 % of the requests per second that the same questions had under full load, from connections
that pause at random: requests arrive as they do from many people.
"""

import argparse
import json
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.load.empty import ANSWER_FILE, FACTORY
from benchmarks.load.generator import Bodies, Load, is_installed
from benchmarks.load.questions import different_questions, repeated_question
from benchmarks.load.server import Server, empty_server, rigfit_server
from service.contract.validation import validate_request
from service.core.units import MIB
from service.planning.catalogues import BuiltinCatalogues
from service.planning.planner import Planner
from tests.databases import migrate_and_seed, opened

CONNECTIONS, PACED_CONNECTIONS = 8, 32
PACED_SHARE = 0.8
DIFFERENT = 200_000


@dataclass(frozen=True, slots=True)
class Kind:
    """One row of the table: what is asked where."""

    name: str
    server: Server
    path: str
    bodies: Bodies

    def load(self, *, duration_s: float, connections: int = CONNECTIONS, pause_s: float = 0.0) -> Load:
        """One window of load."""
        return self.bodies.load(
            self.server.url + self.path, duration_s=duration_s, connections=connections, pause_s=pause_s
        )


@dataclass(frozen=True, slots=True)
class Window:
    """A window of full load and the server's CPU time for a request."""

    load: Load
    cpu_s: float


def full_load(kinds: list[Kind], rounds: int, window_s: float) -> dict[str, list[Window]]:
    """Windows of full load, in turn."""
    seen: dict[str, list[Window]] = {kind.name: [] for kind in kinds}
    for kind in kinds:
        kind.load(duration_s=1)
    for _ in range(rounds):
        for kind in kinds:
            before_s = kind.server.cpu_s()
            load = kind.load(duration_s=window_s)
            seen[kind.name].append(Window(load, (kind.server.cpu_s() - before_s) / load.requests))
    return seen


def ratio(windows: list[Window], others: list[Window], of: Callable[[Window], float]) -> float:
    """Median over rounds of one figure over the same of another kind."""
    return statistics.median(of(window) / of(other) for window, other in zip(windows, others, strict=True))


def median_requests_per_s(windows: list[Window]) -> float:
    """Requests in a second, the median window."""
    return statistics.median(window.load.requests_per_s for window in windows)


def print_full_load(seen: dict[str, list[Window]], empty: tuple[str, str]) -> None:
    """The table of full load."""
    print(
        "| asked | requests/s | CPU of a request | of ready bytes: requests/s | CPU | of an object: requests/s | CPU |"
    )
    print("|---|---|---|---|---|---|---|")
    for name, windows in seen.items():
        cells = []
        for other in empty:
            cells.append(f"{ratio(windows, seen[other], lambda w: w.load.requests_per_s):.0%}")
            cells.append(f"{ratio(windows, seen[other], lambda w: 1 / w.cpu_s):.0%}")
        cpu_s = statistics.median(window.cpu_s for window in windows)
        print(f"| {name} | {median_requests_per_s(windows):,.0f} | {cpu_s * 1e6:,.0f} µs | {' | '.join(cells)} |")


def print_paced(kinds: list[Kind], seen: dict[str, list[Window]], duration_s: float) -> None:
    """The table of latencies at 80 % of full load."""
    print("\n| asked | offered | p50 | p99 | p99 / p50 |")
    print("|---|---|---|---|---|")
    for kind in kinds:
        windows = seen[kind.name]
        target = PACED_SHARE * median_requests_per_s(windows)
        idle_s = statistics.median(window.cpu_s for window in windows)
        pause_s = max(PACED_CONNECTIONS / target - 2 * idle_s, 0.001)
        load = kind.load(duration_s=duration_s, connections=PACED_CONNECTIONS, pause_s=pause_s)
        share = load.requests_per_s / median_requests_per_s(windows)
        print(
            f"| {kind.name} | {load.requests_per_s:,.0f} requests/s, {share:.0%} | {load.p50_s * 1000:.2f} ms "
            f"| {load.p99_s * 1000:.2f} ms | {load.p99_s / load.p50_s:.1f} |"
        )


def starts(environment: Mapping[str, str], workers: int, body: bytes, times: int) -> Iterator[tuple[float, float]]:
    """Seconds and CPU seconds from start to first answer, with everything on disk read before."""
    for _ in range(times):
        with rigfit_server(environment, workers, body) as server:
            yield server.first_answer_s, server.cpu_s()


def measure(folder: Path, options: argparse.Namespace) -> None:
    """Print all tables."""
    database_url = f"sqlite:///{folder / 'rigfit.sqlite3'}"
    with opened(database_url) as engine:
        migrate_and_seed(engine)
    asked = repeated_question()
    answer = Planner(BuiltinCatalogues()).plan(validate_request(asked)).model_dump_json().encode()
    (folder / "answer.json").write_bytes(answer)
    environment = {
        "RIGFIT_DATABASE_URL": database_url,
        ANSWER_FILE: str(folder / "answer.json"),
        # compiled once, as an installed package is
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
    }
    body = json.dumps(asked).encode()
    repeated = Bodies(folder / "repeated.jsonl", [asked])
    different = Bodies(folder / "different.jsonl", different_questions(DIFFERENT, seed=1))
    print(f"{options.workers} worker(s), questions of {len(body)} bytes, a plan of {len(answer):,} bytes; ", end="")
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors\n")
    with (
        rigfit_server(environment, options.workers, body) as service,
        empty_server(FACTORY, environment, options.workers, body) as empty,
    ):
        at_first = service.resident_bytes()
        asked_of = [
            Kind("empty, ready bytes", empty, "/bytes", repeated),
            Kind("empty, an object", empty, "/object", repeated),
            Kind("/plan, the same question", service, "/plan", repeated),
            Kind("/plan, all different", service, "/plan", different),
        ]
        seen = full_load(asked_of, options.rounds, options.window_s)
        print_full_load(seen, (asked_of[0].name, asked_of[1].name))
        print_paced(asked_of, seen, 2 * options.window_s)
        plans = options.plans
        while plans > 0:
            plans -= asked_of[3].load(duration_s=options.window_s).requests
        failed = sum(window.load.failed for windows in seen.values() for window in windows)
        at_last = service.resident_bytes()
    wall_s, cpu_s = zip(*starts(environment, options.workers, body, options.starts), strict=True)
    print("\n| what | figure |\n|---|---|")
    print(f"| start to first answer, median of {len(wall_s)} | {statistics.median(wall_s):.2f} s |")
    print(f"| start to first answer, fastest | {min(wall_s):.2f} s |")
    print(f"| CPU time of a start, median | {statistics.median(cpu_s):.2f} s |")
    print(f"| resident memory of a worker after its first answer | {at_first / MIB:.0f} MiB |")
    print(f"| resident memory of a worker after all load, {options.plans:,} more plans | {at_last / MIB:.0f} MiB |")
    print(f"| requests without an answer of status 200 | {failed} |")


def main() -> None:
    """Read the options and measure in a folder of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--window-s", type=float, default=3)
    parser.add_argument("--plans", type=int, default=5000, help="different plans before memory is read")
    parser.add_argument("--starts", type=int, default=5)
    options = parser.parse_args()
    if not is_installed():
        parser.error("needs wrk; on Debian: apt-get install wrk")
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), options)


if __name__ == "__main__":
    main()
