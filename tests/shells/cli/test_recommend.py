"""`rigfit recommend`."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from service.contract.recommend import EXAMPLE_RECOMMENDATION
from service.shells.cli import app

QUESTION = (
    "llama-3.3-70b:Q4_K_M", "-c", "16384", "--min-decode", "15", "--gpu", "rtx-3090", "--gpu", "rtx-5090",
    "--price", "rtx-3090=750", "--price", "rtx-5090=2600",
)  # fmt: skip


def recommend(*arguments: str) -> Result:
    """A run of the command."""
    return CliRunner().invoke(app, ["recommend", *arguments], env={"COLUMNS": "100", "NO_COLOR": "1"})


def test_rigs_are_a_table() -> None:
    """The cheapest first, then why, the command and what was looked at."""
    ran = recommend(*QUESTION)
    assert ran.exit_code == 0, ran.stderr
    assert ran.stdout.splitlines()[1].startswith("2x rtx-3090")
    assert "llama-server -m llama-3.3-70b-Q4_K_M.gguf" in ran.stdout
    assert "sorted by what the cards cost" in ran.stdout


def test_flags_and_a_file_ask_the_same(tmp_path: Path) -> None:
    """--request takes all that POST /recommend does."""
    path = tmp_path / "wanted.json"
    path.write_text(json.dumps(EXAMPLE_RECOMMENDATION | {"gpus": ["rtx-3090", "rtx-5090"], "sort_by": None}))
    by_file, by_flags = recommend("--request", str(path), "--json"), recommend(*QUESTION, "--json")
    rigs = [[rig["rig"] for rig in json.loads(ran.stdout)["recommendations"]] for ran in (by_file, by_flags)]
    assert rigs[0] == rigs[1] != []


@pytest.mark.parametrize("price", ["rtx-3090", "rtx-3090=cheap"])
def test_a_price_that_is_none_is_refused(price: str) -> None:
    """A price is a card, an equals sign and a number."""
    ran = recommend("qwen3-32b", "--price", price)
    assert ran.exit_code == 2
    assert "as in rtx-3090=750" in ran.stderr
