"""Public tools on the questions that this project is measured on: `python -m benchmarks.peers`.

Each tool is asked where its command is found on PATH; install each into an environment of its own, their requirements
exclude each other. Decode: every measurement of Llama 3 8B and 70B on NVIDIA cards with builds of May 2024. Memory:
models of tests/golden whose layers all lie on one card. Time: one command, from its start to its end.
"""

import json
import lzma
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import psutil

from benchmarks.load.generator import Bodies, is_installed
from benchmarks.load.questions import different_questions, repeated_question
from benchmarks.load.server import Server, rigfit_server
from benchmarks.peer_tools import PEERS, Peer, Question, modelinfo_weights_and_cache_bytes, printed
from service.builtin import builtin_folder
from service.contract.validation import validate_request
from service.planning.catalogues import BuiltinCatalogues
from service.planning.planner import Planner
from tests.databases import migrate_and_seed, opened
from tests.servers import COMMAND, free_port, wait_until_ready

TESTS = Path(__file__).parent.parent / "tests"
CLASSICS = {
    "llama-3.1-8b:Q4_K_M": ("8B", "Q4_K_M"), "llama-3.1-8b:F16": ("8B", "F16"),
    "llama-3.3-70b:Q4_K_M": ("70B", "Q4_K_M"), "llama-3.3-70b:F16": ("70B", "F16"),
}  # fmt: skip
Column: TypeAlias = tuple[str, Sequence[float | None]]
# what the golden tables say of a card
_ALL = ("model_bytes", "context_bytes", "compute_bytes")
TIMED = Question("8B", "Q4_K_M", ("rtx-4090",), 4352, 4096)


def classics() -> Iterator[tuple[dict[str, Any], float]]:
    """Requests of the classics and what was measured."""
    for line in (TESTS / "speed" / "cases.jsonl").read_text("utf-8").splitlines():
        case = json.loads(line)
        is_decode = case["metric"] == "decode_tokens_per_s" and case["group"].startswith("llama.cpp/cuda")
        if is_decode and (case["date"] or "").startswith("2024-05") and case["request"]["model"] in CLASSICS:
            yield case["request"], case["value"]


def question_of(request: dict[str, Any]) -> Question:
    """A request in the words that tools have for it."""
    size, quant = CLASSICS[request["model"]]
    workload = request["workload"]
    cards = tuple(card["gpu"] for card in request["rig"]["gpus"])
    return Question(size, quant, cards, workload["context_tokens"], workload["output_tokens"])


def row(name: str, predicted: Sequence[float | None], measured: Sequence[float]) -> str:
    """One line of figures over what was answered."""
    errors = [given / true - 1 for given, true in zip(predicted, measured, strict=True) if given is not None]
    if not errors:
        return f"| {name} | 0 of {len(measured)} | | | | |"
    sizes = [abs(error) for error in errors]
    within = sum(size <= 0.15 for size in sizes) / len(sizes)
    return (
        f"| {name} | {len(errors)} of {len(measured)} | {statistics.mean(sizes):.1%} | {statistics.median(sizes):.1%} "
        f"| {statistics.mean(errors):+.1%} | {within:.0%} |"
    )


def print_rows(title: str, columns: Sequence[Column], measured: Sequence[float]) -> None:
    """A table of errors."""
    print(f"\n### {title}\n")
    print("| by | answered | mean error | median error | bias | within 15 % |\n|---|---|---|---|---|---|")
    for name, predicted in columns:
        print(row(name, predicted, measured))


def decode(peers: Sequence[Peer]) -> None:
    """Errors on the classics: all, one card, several cards."""
    planner = Planner(BuiltinCatalogues())
    cases = list(classics())
    questions = [question_of(request) for request, _ in cases]
    measured = [value for _, value in cases]
    columns: list[Column] = [
        ("this project, in sample", [_own_decode(planner, request) for request, _ in cases]),
        *((peer.package, list(map(peer.decode_tokens_per_s, questions))) for peer in peers if peer.decode_tokens_per_s),
    ]
    chosen: tuple[tuple[str, Callable[[Question], bool]], ...] = (
        ("Decode, all", lambda _: True),
        ("Decode, one card", lambda question: len(question.gpus) == 1),
        ("Decode, two to eight cards", lambda question: len(question.gpus) > 1),
    )
    for title, holds in chosen:
        at = [index for index, question in enumerate(questions) if holds(question)]
        print_rows(title, [(name, [given[i] for i in at]) for name, given in columns], [measured[i] for i in at])


def _own_decode(planner: Planner, request: dict[str, Any]) -> float | None:
    speed = planner.plan(validate_request(request), alone=True).speed
    return None if speed is None or speed.decode_tokens_per_s is None else speed.decode_tokens_per_s.mid


def one_card_rows() -> Iterator[dict[str, Any]]:
    """Golden rows of one card that holds every layer, with nothing but the context stated."""
    for file in ("placement", "placement_new"):
        for line in (TESTS / "golden" / f"{file}.jsonl").read_text("utf-8").splitlines():
            found = json.loads(line)
            config = found["config"]
            if [device for device, _ in found["observed"]["slots"]] != ["gpu0"]:
                continue
            if config["n_devices"] == 1 and set(config) == {"n_devices", "ctx", "ngl"} and config["ngl"] >= 99:
                yield found


def memory(peers: Sequence[Peer], folder: Path) -> None:
    """Errors on the card's memory: everything llama.cpp allocates there, and weights with KV cache alone."""
    rows = list(one_card_rows())
    observed = [row["observed"]["devices"][0] for row in rows]
    paths = [_header(row["model"], folder) for row in rows]
    contexts = [row["config"]["ctx"] for row in rows]
    planner = Planner(BuiltinCatalogues())
    devices = [_own_device(planner, row) for row in rows]
    totals = [float(sum(device[part] for part in _ALL)) for device in observed]
    columns: list[Column] = [
        ("this project", [float(device.weights_bytes + device.kv_bytes + device.compute_bytes) for device in devices])
    ]
    columns += [
        (peer.package, [peer.device_bytes(*each) for each in zip(paths, contexts, strict=True)])
        for peer in peers
        if peer.device_bytes
    ]
    print_rows("Memory of the card: weights, KV cache and compute buffers", columns, totals)
    held = [float(device["model_bytes"] + device["context_bytes"]) for device in observed]
    columns = [("this project", [float(device.weights_bytes + device.kv_bytes) for device in devices])]
    if any(peer.command == "modelinfo" for peer in peers):
        columns.append(
            ("modelinfo-cli", [modelinfo_weights_and_cache_bytes(*each) for each in zip(paths, contexts, strict=True)])
        )
    print_rows("Memory of the card: weights and KV cache alone", columns, held)


def _own_device(planner: Planner, row: dict[str, Any]) -> Any:
    card = {"name": "any", "vram_bytes": 2**43}
    question = {
        "model": row["model"],
        "rig": {"gpus": [{"gpu": card}]},
        "workload": {"context_tokens": row["config"]["ctx"]},
        "engine": {"n_gpu_layers": "all"},
    }
    return planner.plan(validate_request(question), alone=True).devices[0]


def _header(reference: str, folder: Path) -> Path:
    """The model's header as a GGUF file with a hole where its tensors lie."""
    name, _, quant = reference.partition(":")
    path = folder / f"{name}-{quant}.gguf"
    if not path.exists():
        path.write_bytes(lzma.decompress((builtin_folder("model_db") / name / f"{quant}.gguf.xz").read_bytes()))
    return path


def times(peers: Sequence[Peer]) -> None:
    """Seconds of one command, from its start to its end."""
    print("\n### Time of one command\n\n| command | median | fastest |\n|---|---|---|")
    asked = ["llama-3.1-8b:Q4_K_M", "--gpu", "rtx-4090", "-c", str(TIMED.context_tokens), "--json"]
    runs: list[tuple[str, Callable[[], object]]] = [
        ("rigfit plan", lambda: subprocess.run([COMMAND, "plan", *asked], capture_output=True, check=True))
    ]
    runs += [
        (peer.command, partial(peer.decode_tokens_per_s, TIMED))
        for peer in peers
        if peer.decode_tokens_per_s and peer.decode_tokens_per_s(TIMED)
    ]
    for name, run in runs:
        seconds = []
        for _ in range(5):
            printed.cache_clear()
            started = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - started)
        print(f"| {name} | {statistics.median(seconds):.2f} s | {min(seconds):.2f} s |")


def served(folder: Path) -> None:
    """Questions a second over HTTP, for the one tool that plans by POST, with a profile that it ships with."""
    print("\n### Questions over HTTP, one after the other on 8 connections\n")
    print("| server | requests/s | CPU of a request |\n|---|---|---|")
    database_url = f"sqlite:///{folder / 'rigfit.sqlite3'}"
    with opened(database_url) as engine:
        migrate_and_seed(engine)
    body = json.dumps(repeated_question()).encode()
    with rigfit_server({"RIGFIT_DATABASE_URL": database_url}, 1, body) as server:
        _load("rigfit serve, the same question", server, "/plan", Bodies(folder / "same", [repeated_question()]))
        _load("rigfit serve, all different", server, "/plan", Bodies(folder / "other", different_questions(50_000, 3)))
    asked = {"model": "meta-llama/Meta-Llama-3-8B-Instruct", "quant": "Q4_K_M"}
    bodies = Bodies(folder / "llmfit", ({**asked, "context": tokens} for tokens in range(512, 50_512)))
    port = free_port()
    command = ["llmfit", "--profile", "nvidia-rtx-4090", "serve", "--host", "127.0.0.1", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_until_ready(process, f"http://127.0.0.1:{port}/health")
            server = Server(f"http://127.0.0.1:{port}", psutil.Process(process.pid), 0.0)
            _load("llmfit serve, all different", server, "/api/v1/plan", bodies)
        finally:
            process.terminate()


def _load(name: str, server: Server, path: str, bodies: Bodies) -> None:
    """One line, of a window after one in which everything that is made once was made."""
    bodies.load(server.url + path, duration_s=3, connections=8)
    before_s = server.cpu_s()
    load = bodies.load(server.url + path, duration_s=3, connections=8)
    cpu_s = (server.cpu_s() - before_s) / load.requests
    refused = f", {load.failed} refused" if load.failed else ""
    print(f"| {name}{refused} | {load.requests_per_s:,.0f} | {cpu_s * 1e6:,.0f} µs |")


def main() -> None:
    """Print all tables."""
    found = [peer for peer in PEERS if shutil.which(peer.command)]
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors; found {', '.join(p.command for p in found)}")
    print("\n| package | cannot be asked |\n|---|---|")
    for peer in PEERS:
        print(f"| {peer.package}{'' if peer in found else ' (not installed)'} | {peer.cannot} |")
    decode(found)
    with tempfile.TemporaryDirectory() as folder:
        memory(found, Path(folder))
        if is_installed() and shutil.which("llmfit"):
            served(Path(folder))
    times(found)


if __name__ == "__main__":
    main()
