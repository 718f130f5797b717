"""`rigfit batch`: a table into a table."""

import csv
import io
import subprocess
from pathlib import Path

from tests.servers import COMMAND


def test_a_table_becomes_a_workbook_and_a_table_again(tmp_path: Path) -> None:
    """CSV to XLSX to CSV: every row is there, with the figures of the first time."""
    source = tmp_path / "questions.csv"
    source.write_text("ref,model,gpu\n1,llama-3.2-1b,rtx-3090\n2,nothing,rtx-3090\n")
    first, workbook, last = (tmp_path / name for name in ("first.csv", "plans.xlsx", "last.csv"))
    for given, made in ((source, first), (source, workbook), (workbook, last)):
        ran = subprocess.run([COMMAND, "batch", given, "-o", made], check=True, capture_output=True, text=True)
        assert "2 rows, 1 of them with a problem" in ran.stderr
    rows, again = (list(csv.DictReader(io.StringIO(path.read_text()))) for path in (first, last))
    assert [row["ref"] for row in rows] == ["1", "2"]
    assert [row["verdict"] for row in rows] == ["fits", ""]
    assert rows == again


def test_a_table_that_cannot_be_answered_leaves_no_file(tmp_path: Path) -> None:
    """A problem of the whole table is said, with status 2."""
    source = tmp_path / "questions.csv"
    source.write_text("ref,gpu\n1,rtx-3090\n")
    for given, made, said in (
        (source, "out.csv", "model"),
        (source, "out.pdf", ".xlsx"),
        (tmp_path / "no.csv", "o.csv", "read"),
    ):
        ran = subprocess.run(
            [COMMAND, "batch", given, "-o", tmp_path / made], check=False, capture_output=True, text=True
        )
        assert ran.returncode == 2
        assert said in ran.stderr
    assert list(tmp_path.iterdir()) == [source]
