"""The table of faults says what is tested, and nothing else."""

import re
from pathlib import Path

from tests.structure.repository import ROOT, functions, syntax

HERE = Path(__file__).parent


def test_every_fault_that_is_told_is_tested() -> None:
    """Each row of docs/faults.md names one test, and each test of a fault has one row; others by their whole path."""
    table = (ROOT / "docs" / "faults.md").read_text("utf-8")
    rows = [row for row in table.splitlines() if row.startswith("| ")][1:]
    told = [re.search(r"`((?:tests/[\w/]+/)?test_\w+\.py::test_\w+)` \|$", row) for row in rows]
    assert all(told)
    names = [match[1] for match in told if match]
    assert sorted(name for name in names if "/" not in name) == sorted(
        f"{path.name}::{name}"
        for path in sorted(HERE.glob("test_*.py"))
        if path.name != Path(__file__).name
        for name in named_tests(path.relative_to(ROOT))
    )
    elsewhere = [name.split("::") for name in names if "/" in name]
    assert [name for path, name in elsewhere if name not in named_tests(Path(path))] == []


def named_tests(path: Path) -> list[str]:
    """Names of the tests in a file."""
    return [function.name for function in functions(syntax(path)) if function.name.startswith("test_")]
