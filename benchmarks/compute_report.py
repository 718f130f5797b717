"""How far planned compute buffers are from what llama.cpp allocates, per architecture.

Compares with the golden tables in tests/golden; run from the project's root::

    python benchmarks/compute_report.py                     all architectures
    python benchmarks/compute_report.py --arch llama --rows every wrong buffer of one architecture
    python benchmarks/compute_report.py --full              without leaving out blocks that repeat others
"""

import argparse
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from service.core.problems import PlanProblem  # noqa: E402
from tests.compute_rows import (  # noqa: E402
    ComputeFigure,
    compute_figures,
    planned_compute,
    planned_without_merging,
)
from tests.golden_rows import GoldenRow, golden_rows  # noqa: E402

TABLES = ("placement", "placement_new", "quants", "architectures")
HEADINGS = f"{'architecture':20} {'values':>6} {'exact':>7} {'mean':>8} {'p95':>8} {'max':>8} {'under by > 2 %':>15}"


def rows(tables: Sequence[str], arch: str | None, model: str | None) -> Iterator[GoldenRow]:
    """Rows of the golden tables whose model is known here."""
    for table in tables:
        for row in golden_rows(table):
            named = model is None or model in row.model_name
            if named and row.has_header and arch in (None, row.model.architecture):
                yield row


def print_row(figures: Sequence[ComputeFigure]) -> None:
    """A row's wrong buffers."""
    wrong = [figure for figure in figures if figure.error]
    if wrong:
        print(wrong[0].row, wrong[0].row.observed["slots"])
    for figure in wrong:
        difference = figure.planned_bytes - figure.observed_bytes
        print(f"   {figure.tool} {figure.buffer} {figure.planned_bytes} for {figure.observed_bytes} ({difference:+d})")


def statistics_line(name: str, errors: Sequence[float]) -> str:
    """One architecture's line of the table."""
    sizes = sorted(map(abs, errors))
    exact = sum(error == 0 for error in errors) / len(errors)
    under = sum(error < -0.02 for error in errors) / len(errors)
    p95 = sizes[min(len(sizes) - 1, int(len(sizes) * 0.95))]
    shares = f"{exact:7.1%} {statistics.fmean(sizes):8.3%} {p95:8.3%} {sizes[-1]:8.3%} {under:15.1%}"
    return f"{name:20} {len(errors):6} {shares}"


def print_table(by_arch: Mapping[str, Sequence[float]], missing: Mapping[str, str]) -> None:
    """One line per architecture, and all together."""
    print(HEADINGS)
    everything = [error for errors in by_arch.values() for error in errors]
    for arch, errors in [*sorted(by_arch.items()), ("all", everything)]:
        if errors:
            print(statistics_line(arch, errors))
    for arch, why in sorted(missing.items()):
        print(f"{arch:20} {why}")


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch")
    parser.add_argument("--model")
    parser.add_argument("--table", action="append", choices=TABLES)
    parser.add_argument("--rows", action="store_true", help="print wrong rows")
    parser.add_argument("--full", action="store_true", help="leave no block out")
    args = parser.parse_args()
    plan = planned_without_merging if args.full else planned_compute
    by_arch: dict[str, list[float]] = defaultdict(list)
    missing: dict[str, str] = {}
    start = time.process_time()
    for row in rows(args.table or TABLES[:3], args.arch, args.model):
        try:
            figures = compute_figures(row, plan)
        except PlanProblem as problem:
            missing[row.model.architecture] = str(problem)
            continue
        by_arch[row.model.architecture] += [figure.error for figure in figures]
        if args.rows:
            print_row(figures)
    print_table(by_arch, missing)
    print(f"{time.process_time() - start:.1f} s of CPU, reading headers included")


if __name__ == "__main__":
    main()
