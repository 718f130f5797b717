"""The table of faults says what is tested, and nothing else."""

import re
from pathlib import Path

from tests.structure.repository import ROOT, functions, syntax

HERE = Path(__file__).parent


def test_every_fault_that_is_told_is_tested() -> None:
    """Each row of docs/faults.md names one test, and each test of a fault has one row."""
    table = (ROOT / "docs" / "faults.md").read_text("utf-8")
    rows = [row for row in table.splitlines() if row.startswith("| ")][1:]
    told = [re.search(r"`(test_\w+\.py::test_\w+)` \|$", row) for row in rows]
    tested = [
        f"{path.name}::{function.name}"
        for path in sorted(HERE.glob("test_*.py"))
        if path.name != Path(__file__).name
        for function in functions(syntax(path.relative_to(ROOT)))
        if function.name.startswith("test_")
    ]
    assert sorted(match[1] for match in told if match) == sorted(tested)
    assert all(told)
