"""How far computed compute buffers are from what llama.cpp allocates, per architecture.

Compares with the golden tables beside the checkout (`../shared/golden`); run from the project's root::

    python benchmarks/compute_report.py                     all architectures
    python benchmarks/compute_report.py --arch llama --rows every wrong row of one architecture
    python benchmarks/compute_report.py --full              without merging equal blocks
"""

import argparse
import json
import lzma
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from service.core.architectures.hparams import read_hparams  # noqa: E402
from service.core.engines.llamacpp.compute import ComputeQuestion, block_kinds, compute_buffers  # noqa: E402
from service.core.engines.llamacpp.context import resolve_context  # noqa: E402
from service.core.engines.llamacpp.overrides import OverrideTable  # noqa: E402
from service.core.engines.llamacpp.settings import LlamaCppSettings, Tool  # noqa: E402
from service.core.engines.llamacpp.slots import resolve_n_gpu_layers, split_slots  # noqa: E402
from service.core.engines.llamacpp.versions import version_rules  # noqa: E402
from service.core.problems import PlanProblem  # noqa: E402
from service.core.types import Backend, Model  # noqa: E402
from service.gguf.reader import read_header  # noqa: E402

SHARED = ROOT.parent / "shared"
TABLES = ("placement", "placement_new", "quants", "architectures")


@lru_cache(maxsize=8)
def load(name: str) -> Model:
    """The model a golden row names."""
    folder, file = ("data/model_headers", name.replace(":", "-")) if ":" in name else ("golden/arch_headers", name)
    return read_header(lzma.decompress((SHARED / folder / f"{file}.gguf.xz").read_bytes()))


def golden(tables: tuple[str, ...], arch: str | None) -> Iterator[dict[str, Any]]:
    """Rows of the golden tables."""
    for table in tables:
        for line in (SHARED / "golden" / f"{table}.jsonl").read_text().splitlines():
            row = json.loads(line)
            if "observed" in row and (arch is None or row["arch"] == arch):
                yield row


def question(row: dict[str, Any], tool: Tool, backend: Backend = "rpc") -> ComputeQuestion:
    """The row's configuration as a question."""
    config = row["config"]
    model = load(row["model"])
    hp = read_hparams(model)
    settings = LlamaCppSettings(
        tool=tool,
        n_batch=config.get("n_batch", 2048),
        n_ubatch=config.get("n_ubatch", 512),
        flash_attn=config.get("flash_attn", True),
        cache_type_k=config.get("cache_type_k"),
        cache_type_v=config.get("cache_type_v"),
        kv_unified=config.get("kv_unified"),
        swa_full=config.get("swa_full", False),
        kv_offload=not config.get("no_kv_offload", False),
    )
    ctx = resolve_context(hp, settings, config["ctx"], config.get("n_parallel", 1), version_rules(None, None))
    devices = config["n_devices"]
    split = list(config.get("tensor_split") or [1] * devices)
    weights = [*split, *[0] * devices][:devices]
    slots = split_slots(hp.n_layer_all, resolve_n_gpu_layers(config["ngl"], hp.n_layer_all), weights)
    moved = {}
    if config.get("n_cpu_moe"):
        table = OverrideTable((), config["n_cpu_moe"])
        for tensor in model.tensors:
            target = table.target(tensor.name)
            if target is not None:
                moved[tensor.name] = target
    return ComputeQuestion(
        model=model,
        hp=hp,
        ctx=ctx,
        slots=slots,
        backends=(backend,) * devices,
        tensor_location=moved,
        pipeline_copies=row["observed"]["sched_copies"] or 1,
    )


def errors(row: dict[str, Any]) -> list[tuple[str, int, int]]:
    """(what, computed, observed) of every device and the host, for the server and for llama-bench."""
    seen = row["observed"]
    found = []
    for tool, key in (("llama-server", "compute_bytes"), ("llama-bench", "compute_bytes_bench")):
        got = compute_buffers(question(row, tool))  # type: ignore[arg-type]
        for i, (mine, device) in enumerate(zip(got.device_bytes, seen["devices"], strict=True)):
            if key in device:
                found.append((f"{tool} gpu{i}", mine, device[key]))
        if key in seen["host"]:
            found.append((f"{tool} host", got.host_bytes, seen["host"][key]))
    return found


def relative(mine: int, seen: int) -> float:
    """Signed relative error; where llama.cpp allocates less than a MiB, relative to a MiB."""
    return (mine - seen) / max(seen, 2**20)


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch")
    parser.add_argument("--model")
    parser.add_argument("--table", action="append", choices=TABLES)
    parser.add_argument("--rows", action="store_true", help="print wrong rows")
    parser.add_argument("--full", action="store_true", help="do not merge equal blocks")
    args = parser.parse_args()
    if args.full:
        block_kinds.kept_blocks = lambda signatures, _cycle: tuple(range(len(signatures)))  # type: ignore[assignment]
    by_arch: dict[str, list[float]] = defaultdict(list)
    missing: dict[str, str] = {}
    spent = 0.0
    for row in golden(tuple(args.table or TABLES[:3]), args.arch):
        if args.model and args.model not in row["model"]:
            continue
        try:
            start = time.perf_counter()
            found = errors(row)
            spent += time.perf_counter() - start
        except (PlanProblem, FileNotFoundError) as problem:
            missing[row["arch"]] = str(problem)
            continue
        by_arch[row["arch"]] += [relative(mine, seen) for _, mine, seen in found]
        if args.rows:
            wrong = [f"{what} {mine} for {seen} ({mine - seen:+d})" for what, mine, seen in found if mine != seen]
            if wrong:
                print(row["id"], row["model"], row["config"], row["observed"]["slots"], *wrong, sep="\n   ")
    print_table(by_arch, missing)
    print(f"{spent:.1f} s, reading headers included")


def print_table(by_arch: dict[str, list[float]], missing: dict[str, str]) -> None:
    """One line per architecture, and all together."""
    everything = [error for errors_ in by_arch.values() for error in errors_]
    print(f"{'architecture':20} {'values':>6} {'exact':>7} {'mean':>8} {'p95':>8} {'max':>8} {'under by > 2 %':>15}")
    for arch, signed in [*sorted(by_arch.items()), ("all", everything)]:
        if not signed:
            continue
        sizes = sorted(map(abs, signed))
        exact = sum(error == 0 for error in signed) / len(signed)
        under = sum(error < -0.02 for error in signed) / len(signed)
        p95 = sizes[min(len(sizes) - 1, int(len(sizes) * 0.95))]
        print(
            f"{arch:20} {len(signed):6} {exact:7.1%} {statistics.fmean(sizes):8.3%} {p95:8.3%} {sizes[-1]:8.3%} {under:15.1%}"
        )
    for arch, why in sorted(missing.items()):
        print(f"{arch:20} {why}")


if __name__ == "__main__":
    main()
