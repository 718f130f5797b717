"""Processor time of each kind of request, in units of an explicit plan: `python -m benchmarks.request_costs`.

What service/planning/access/costs.py charges follows it; lists and tables cost a round number, as they may be long.
"""

import logging
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from starlette.testclient import TestClient

from service.app import create_app
from service.planning.access.costs import cost_of
from service.settings import Settings
from tests.databases import SqliteDatabases, migrate_and_seed

_TIMES: Final = 5
_PAGE: Final = "model=llama-3.3-70b:Q4_K_M&gpus=2x+rtx-3090"


def question(number: int) -> dict[str, Any]:
    """A question that was not asked before."""
    workload = {"context_tokens": 4096 + number}
    return {"model": "llama-3.3-70b:Q4_K_M", "rig": {"gpus": ["2x rtx-3090"]}, "workload": workload}


def without_rig(number: int) -> dict[str, Any]:
    """The same for rigs to be found."""
    return {key: value for key, value in question(number).items() if key != "rig"}


def comparison(number: int) -> dict[str, Any]:
    """Two models on two rigs."""
    rigs = [{"gpus": ["2x rtx-3090"]}, {"gpus": ["rtx-5090"]}]
    models = ["llama-3.3-70b:Q4_K_M", "qwen3-32b:Q4_K_M"]
    return {"models": models, "rigs": rigs, "contexts": [8192 + number]}


REQUESTS: Final[Mapping[tuple[str, str], Callable[[int], dict[str, Any]]]] = {
    ("POST", "/plan"): lambda number: {"json": question(number)},
    ("GET", "/gpus/rtx-3090"): lambda _: {},
    ("GET", "/models"): lambda _: {},
    ("GET", "/"): lambda number: {"params": f"{_PAGE}&context_tokens={5000 + number}"},
    ("GET", "/answer/chart"): lambda number: {"params": f"{_PAGE}&context_tokens={6000 + number}"},
    ("POST", "/plan/curves"): lambda number: {"json": question(5000 + number)},
    ("POST", "/compare"): lambda number: {"json": comparison(number)},
    ("POST", "/recommend"): lambda number: {
        "json": {key: question(256 * number)[key] for key in ("model", "workload")}
    },
    ("POST", "/plan/batch"): lambda number: {"json": [question(7000 + 20 * number + row) for row in range(20)]},
    ("GET", "/plan/template.xlsx"): lambda _: {},
}


def processor_s(client: TestClient, method: str, path: str, arguments: Callable[[int], dict[str, Any]]) -> float:
    """Median processor time of one request after the first."""
    spent_s = []
    for number in range(_TIMES + 1):
        began_s = time.process_time()
        answer = client.request(method, path, **arguments(number))
        spent_s.append(time.process_time() - began_s)
        assert answer.status_code == 200, answer.text
    return statistics.median(spent_s[1:])


def main() -> None:
    """Print a table."""
    logging.disable()
    with tempfile.TemporaryDirectory() as folder:
        url = SqliteDatabases(Path(folder)).copy_of("seeded", migrate_and_seed)
        settings = Settings(database_url=url, model_hosts=(), batch_processes=1)
        with TestClient(create_app(settings)) as client:
            spent_s = {asked: processor_s(client, *asked, arguments) for asked, arguments in REQUESTS.items()}
    plan_s = spent_s["POST", "/plan"]
    print("| request | ms | plans | charged |\n| --- | ---: | ---: | ---: |")
    for (method, path), taken_s in spent_s.items():
        print(f"| {method} {path} | {1000 * taken_s:.1f} | {taken_s / plan_s:.1f} | {cost_of(method, path)} |")


if __name__ == "__main__":
    main()
