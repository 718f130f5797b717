"""How long a table takes: `python benchmarks/batch.py [rows]`, 10,000 where not said.

`rigfit batch` on a CSV of rows that nearly all differ, the start of its processes included: popular models on rigs of
one to four cards, a context drawn at random in each row, a number of streams in some. Wall and CPU time, rows per
second, and the most memory that one of its processes held (the largest resident set). Then rows in this process, a
group at a time and without any file: what one costs by itself.
"""

import csv
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from service.planning.batch.answering import Question, answer_cells, question_of_cells
from service.planning.batch.order import ROWS
from service.planning.catalogues import BuiltinCatalogues
from service.planning.planner import Planner

HEADER = ("model", "gpus", "context_tokens", "parallel")
MODELS = (
    "llama-3.3-70b:Q4_K_M", "llama-3.1-8b:Q8_0", "qwen3-32b:Q4_K_M", "qwen3-14b:Q6_K", "mistral-small-3.2-24b:Q4_K_M",
    "gemma-3-27b:Q4_K_M", "gpt-oss-20b:MXFP4", "gpt-oss-120b:MXFP4", "qwen3-30b-a3b:Q4_K_M", "mixtral-8x7b:Q4_K_M",
    "phi-4:Q4_K_M", "command-r-35b:Q4_K_M",
)  # fmt: skip
RIGS = (
    "rtx-3090", "2x rtx-3090", "4x rtx-3090", "rtx-4090", "2x rtx-4090", "rtx-5090", "rtx-5090 + rtx-4090",
    "rtx-3060-12gb + rtx-4060-ti-16gb", "l40s", "a100-sxm4-80gb", "2x h100-sxm5-80gb", "rx-7900-xtx",
)  # fmt: skip
ROW_COUNT, IN_PROCESS = 10_000, 1_000
MIB = 1 << 20


def rows(count: int, seed: int) -> Iterator[tuple[str, str, str, str]]:
    """Rows of a table, the same in every run."""
    draw = random.Random(seed)  # noqa: S311 - the same questions in every run
    for _ in range(count):
        yield (
            draw.choice(MODELS),
            draw.choice(RIGS),
            str(draw.randrange(512, 65_536)),
            draw.choice(("", "", "", "2", "4")),
        )


def command_line(count: int) -> None:
    """Wall and CPU time of `rigfit batch`, and the most memory that one of its processes held."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "rows.csv", Path(folder) / "answered.csv"
        with source.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([HEADER, *rows(count, seed=1)])
        start = time.perf_counter()
        subprocess.run([Path(sys.executable).parent / "rigfit", "batch", source, "-o", target], check=True)
        wall_s, used = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        with target.open(newline="", encoding="utf-8-sig") as file:
            answered = list(csv.DictReader(file))
    assert len(answered) == count
    problems = sum(bool(row["problem"]) for row in answered)
    print(f"rigfit batch, {count:,} rows, {len(set(rows(count, seed=1))):,} different ones, {problems} problems")
    print(
        f"  {wall_s:6.2f} s wall, {used.ru_utime + used.ru_stime:6.2f} s CPU, {count / wall_s:6.0f} rows/s, "
        f"{used.ru_maxrss * 1024 / MIB:4.0f} MiB in the largest process",
        flush=True,
    )


def in_process(count: int) -> None:
    """CPU time of a row by itself, with everything that belongs to its model and rig remembered and without."""
    planner = Planner(BuiltinCatalogues())
    questions = [
        question_of_cells(dict(zip(HEADER, row, strict=True)), decimal_comma=False) for row in rows(2 * count, seed=2)
    ]
    print(f"in one process, {count:,} rows at a time")
    for label, part in (("first", questions[:count]), ("further ones", questions[count:])):
        start = time.process_time()
        for group in _groups(part):
            answer_cells(planner, group)
        print(f"  {label:14} {(time.process_time() - start) / count * 1e6:6.0f} µs a row", flush=True)


def _groups(questions: Sequence[Question]) -> Iterator[Sequence[Question]]:
    ordered = sorted(questions, key=lambda question: question.model)
    for first in range(0, len(ordered), ROWS.group):
        yield ordered[first : first + ROWS.group]


def main() -> None:
    """Print both tables."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else ROW_COUNT
    command_line(count)
    in_process(min(count, IN_PROCESS))


if __name__ == "__main__":
    main()
