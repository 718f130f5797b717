"""`rigfit compare`."""

import csv
import io
import json
from pathlib import Path

from typer.testing import CliRunner, Result

from service.shells.cli import app

QUESTION = ("qwen3-32b:Q4_K_M", "--rig", "2x rtx-3090", "--rig", "rtx-5090,rtx-3090", "-c", "8192", "-c", "32768")


def compare(*arguments: str) -> Result:
    """A run of the command."""
    return CliRunner().invoke(app, ["compare", *arguments], env={"COLUMNS": "100", "NO_COLOR": "1"})


def test_a_table_has_a_line_per_combination() -> None:
    """Two rigs at two contexts are four lines, the best of each column marked, and why."""
    ran = compare(*QUESTION)
    assert ran.exit_code == 0, ran.stderr
    assert ran.stdout.count(" fits ") == 4
    assert ran.stdout.count("*") >= 4
    assert "decodes fastest" in " ".join(ran.stdout.split())


def test_a_table_as_json_and_csv() -> None:
    """The same rows for programs and for spreadsheets."""
    rows = json.loads(compare(*QUESTION, "--json").stdout)["rows"]
    lines = list(csv.DictReader(io.StringIO(compare(*QUESTION, "--csv").stdout)))
    assert [row["figures"]["id"] for row in rows] == [line["id"] for line in lines]


def test_a_comparison_is_read_from_a_file(tmp_path: Path) -> None:
    """--request takes all that POST /compare does."""
    path = tmp_path / "comparison.json"
    path.write_text(
        json.dumps({"base": {"model": "qwen3-32b"}, "rigs": ["rtx-5090"], "engines": [{}, {"n_batch": 512}]})
    )
    rows = json.loads(compare("--request", str(path), "--json").stdout)["rows"]
    assert [row["engine"] for row in rows] == ["llama.cpp", "llama.cpp n_batch=512"]


def test_what_cannot_be_compared_is_refused() -> None:
    """Without a model the command says so and leaves with status 2."""
    ran = compare("--rig", "rtx-5090")
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert "no model is named" in ran.stderr
