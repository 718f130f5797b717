"""How long plans take: `python benchmarks/plan.py`.

In process, `Planner.plan` on requests that are already read, without writing JSON: explicit plans over four cards whose
context and shares differ from one to the next, so that nothing but what belongs to the model is remembered; plans with
everything open; the first plan of a model; plans each of which has a batch size of its own, so that all graphs are new.
Then `rigfit plan --requests` on 1,000 different lines of many models, rigs,
settings and contexts, the start of the process included. Few of these share a graph, so that most of it is new work,
unless graphs were kept on disk by an earlier run.

Times in process are CPU times of single plans: the best, the median and the 95th percentile. "references" are best and
median in units of the best and the median of a fixed piece of plain Python that runs in between, for comparing machines
and loads.
"""

import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from service.contract.request import PlanRequest
from service.contract.validation import validate_request
from service.planning.catalogues import BuiltinCatalogues
from service.planning.planner import Planner
from service.planning.process import seldom_collect

CHECKOUT = Path(__file__).parent.parent
GOLDEN = CHECKOUT / "tests" / "golden"
# one architecture with 22, 80 and 126 blocks
BY_BLOCKS = {22: "tinyllama-1.1b:Q4_K_M", 80: "llama-3.3-70b:Q4_K_M", 126: "llama-3.1-405b:Q4_K_M"}
OPEN = ("llama-3.3-70b:Q4_K_M", "gpt-oss-120b:MXFP4", "deepseek-v3.2:Q4_K_M", "kimi-k3:Q4_K_M")
RIGS = (
    ["rtx-3090"],
    ["2x rtx-3090"],
    ["4x rtx-3090"],
    ["rtx-5090", "rtx-4090"],
    ["2x h100-sxm5-80gb"],
    ["rtx-3060-12gb", "rtx-4060-ti-16gb"],
    ["rx-7900-xtx"],
    ["apple-m3-ultra-80-core-gpu"],
)
GOLDEN_FIELDS = ("n_ubatch", "flash_attn", "cache_type_k", "cache_type_v", "kv_unified", "n_cpu_moe", "swa_full")
LONG_AND_SHORT = ("llama-3.3-70b:Q4_K_M", "gpt-oss-120b:MXFP4", "glm-5.1:Q4_K_M", "minimax-m3:Q4_K_M", "kimi-k3:Q4_K_M")
KEPT_BYTES = 1 << 28
LINES, FEW_MODELS, EXPLICIT_PLANS, OPEN_PLANS, NEW_BATCHES = 1000, 24, 2000, 40, 20


def explicit_requests(model: str, count: int, seed: int) -> list[PlanRequest]:
    """Plans that leave nothing open on four cards, with contexts and shares drawn at random."""
    draw = random.Random(seed)  # noqa: S311 - the same questions in every run
    return [
        validate_request(
            {
                "model": model,
                "rig": {"gpus": ["4x h100-sxm5-80gb"]},
                "workload": {"context_tokens": draw.randrange(512, 65_536)},
                "engine": {"n_gpu_layers": "all", "tensor_split": [draw.randint(80, 120) / 100 for _ in range(4)]},
            }
        )
        for _ in range(count)
    ]


def open_requests(model: str, gpus: Sequence[str], count: int, seed: int) -> list[PlanRequest]:
    """Plans that leave everything open but a context drawn at random."""
    draw = random.Random(seed)  # noqa: S311 - the same questions in every run
    return [
        validate_request(
            {"model": model, "rig": {"gpus": list(gpus)}, "workload": {"context_tokens": draw.randrange(512, 65_536)}}
        )
        for _ in range(count)
    ]


def reference() -> int:
    """A fixed piece of plain Python: calls, attributes, dicts and arithmetic as a plan has them."""
    totals: dict[int, int] = {}
    for number in range(300):
        totals[number % 7] = totals.get(number % 7, 0) + len(str(number)) * number
    return max(totals.values())


def cpu_s(work: Callable[[], object]) -> float:
    """CPU time of one call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def report(label: str, planner: Planner, requests: Sequence[PlanRequest]) -> None:
    """One line: best, median and 95th percentile of a plan, and the first two in references."""
    times, references = [], []
    for request in requests:
        times.append(cpu_s(lambda request=request: planner.plan(request)))  # type: ignore[misc]
        references.append(cpu_s(reference))
    times.sort()
    best_s, median_s, p95_s = times[0], statistics.median(times), times[len(times) * 95 // 100]
    ratios = f"{best_s / min(references):7.1f} {median_s / statistics.median(references):7.1f}"
    print(
        f"  {label:44} {best_s * 1e6:9.0f} {median_s * 1e6:9.0f} {p95_s * 1e6:9.0f} µs  {ratios} references", flush=True
    )


def explicit_plans() -> None:
    """Cost of a plan by the number of blocks, and with the cards too small."""
    print(f"{'':47} {'best':>8} {'median':>9} {'p95':>9}")
    print("explicit plans over 4 cards, contexts and shares at random")
    for blocks, model in BY_BLOCKS.items():
        planner = Planner(BuiltinCatalogues())
        for request in explicit_requests(model, 200, seed=1):
            planner.plan(request)
        report(f"{blocks} blocks, {model}", planner, explicit_requests(model, EXPLICIT_PLANS, seed=2))


def open_plans() -> None:
    """Cost of choosing everything, and of everything that is made once per model."""
    print("everything open, contexts at random")
    for model in OPEN:
        planner = Planner(BuiltinCatalogues())
        first = open_requests(model, ["2x rtx-3090"], 1, seed=3)
        report(f"first plan of {model} on 2 cards", planner, first)
        report("further ones", planner, open_requests(model, ["2x rtx-3090"], OPEN_PLANS, seed=4))


def new_batches() -> None:
    """Cost of a plan whose graphs are all new."""
    print("explicit plans over 4 cards, each with a batch size of its own")
    for model in LONG_AND_SHORT:
        planner = Planner(BuiltinCatalogues())
        first, *further = (
            validate_request(
                {
                    "model": model,
                    "rig": {"gpus": ["4x h100-sxm5-80gb"]},
                    "workload": {"context_tokens": 16_384},
                    "engine": {"n_gpu_layers": "all", "tensor_split": [1, 1, 1, 1], "n_ubatch": 256 + 32 * number},
                }
            )
            for number in range(NEW_BATCHES + 1)
        )
        planner.plan(first)
        report(model, planner, further)


def golden_questions(models: int | None) -> list[dict[str, Any]]:
    """What the golden tables' rows of the first `models` models ask, without a rig; each question once."""
    known: dict[str, None] = {}
    found: dict[str, dict[str, Any]] = {}
    for file in ("placement", "placement_new"):
        for line in (GOLDEN / f"{file}.jsonl").read_text("utf-8").splitlines():
            row = json.loads(line)
            known.setdefault(row["model"])
            if models is not None and list(known).index(row["model"]) >= models:
                continue
            config = row["config"]
            streams = {"parallel": config["n_parallel"]} if "n_parallel" in config else {}
            question = {
                "model": row["model"],
                "workload": {"context_tokens": config["ctx"], **streams},
                "engine": {field: config[field] for field in GOLDEN_FIELDS if field in config},
            }
            found.setdefault(json.dumps(question), question)
    return list(found.values())


def golden_requests(models: int | None) -> Iterator[dict[str, Any]]:
    """Questions of the golden tables on rigs of the catalogue in turn; no two requests are equal.

    Questions are gone through again with a longer context and on other rigs until there are enough.
    """
    questions = golden_questions(models)
    for number in range(LINES):
        turn, at = divmod(number, len(questions))
        asked = questions[at]
        tokens = asked["workload"]["context_tokens"] + 1000 * turn
        yield {
            **asked,
            "workload": {**asked["workload"], "context_tokens": tokens},
            "rig": {"gpus": RIGS[(number + turn) % len(RIGS)]},
        }


def answered_lines(lines: Sequence[str], folder: str) -> tuple[bytes, float, float]:
    """What `rigfit plan --requests` answers with graphs kept in a folder, and its wall and CPU time in seconds."""
    before, start = os.times(), time.perf_counter()
    ran = subprocess.run(
        [Path(sys.executable).parent / "rigfit", "plan", "--requests", "-"],
        input="\n".join(lines).encode(),
        stdout=subprocess.PIPE,
        env=os.environ | {"RIGFIT_CACHE_FOLDER": folder, "RIGFIT_CACHE_BYTES": str(KEPT_BYTES)},
        check=True,
    )
    wall_s, after = time.perf_counter() - start, os.times()
    return (
        ran.stdout,
        wall_s,
        after.children_user + after.children_system - before.children_user - before.children_system,
    )


def command_line() -> None:
    """Wall and CPU time of `rigfit plan --requests`: with nothing kept, the same again, and with other contexts."""
    print(f"rigfit plan --requests, {LINES:,} lines, {os.cpu_count()} processors")
    for label, models in ((f"{FEW_MODELS} models", FEW_MODELS), ("50 models", None)):
        requests = list(golden_requests(models))
        lines = list(map(json.dumps, requests))
        for request in requests:
            request["workload"]["context_tokens"] += 768
        others = list(map(json.dumps, requests))
        first = b""
        with TemporaryDirectory() as folder:
            for asked, kept in ((lines, "nothing kept"), (lines, "asked before"), (others, "asked for other contexts")):
                answers, wall_s, used_s = answered_lines(asked, folder)
                first = first or answers
                assert (answers == first) is (asked is lines)
                problems = sum(answer.startswith(b'{"problem"') for answer in answers.splitlines())
                assert len(answers.splitlines()) == LINES
                what = f"{label}, {len(set(asked)):,} different lines, {problems} problems, {kept}"
                print(f"  {what}: {wall_s:6.2f} s wall, {used_s:6.2f} s CPU", flush=True)


def main() -> None:
    """Print all tables."""
    seldom_collect()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    explicit_plans()
    open_plans()
    new_batches()
    command_line()


if __name__ == "__main__":
    main()
