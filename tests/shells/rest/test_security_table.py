"""The table of security checks says what is tested, and nothing else."""

import re
from pathlib import Path

from tests.structure.repository import ROOT, functions, syntax

HERE = Path(__file__).parent
CHECKS = ("test_access.py", "test_hardening.py", "test_rate_limits.py")


def test_every_check_that_is_told_is_tested() -> None:
    """Each row of docs/security.md names one test, and each test of these files has one row."""
    table = (ROOT / "docs" / "security.md").read_text("utf-8")
    rows = [row for row in table.splitlines() if row.startswith("| ")][1:]
    told = [re.search(r"`(test_\w+\.py::test_\w+)` \|$", row) for row in rows]
    tested = [
        f"{name}::{function.name}"
        for name in CHECKS
        for function in functions(syntax((HERE / name).relative_to(ROOT)))
        if function.name.startswith("test_")
    ]
    assert all(told)
    assert sorted(match[1] for match in told if match) == sorted(tested)
