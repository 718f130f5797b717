"""`rigfit measurements`: benchmarks into the database, and plans of the command line that follow them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from service.planning.local import holds_measurements, local_planner, stored_catalogues
from service.settings import settings
from service.shells.cli import app
from tests.databases import Databases, migrate_and_seed
from tests.measurements.printed import as_json, as_markdown, row


@pytest.fixture
def database_path(sqlite: Databases, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The settings name a fresh seeded database, and nothing is remembered of another."""
    url = sqlite.copy_of("seeded", migrate_and_seed)
    monkeypatch.setenv("RIGFIT_DATABASE_URL", url)
    for remembered in (settings, stored_catalogues, local_planner):
        remembered.cache_clear()
    return Path(url.removeprefix("sqlite:///"))


@pytest.fixture(autouse=True)
def _forget() -> Any:
    yield
    for remembered in (settings, stored_catalogues, local_planner):
        remembered.cache_clear()


def run(*arguments: str, stdin: str = "") -> str:
    answer = CliRunner().invoke(app, list(arguments), input=stdin)
    assert answer.exit_code == 0, answer.output
    return answer.stdout


def speed() -> float:
    """Decode of Llama 3.1 8B on an RTX 3090 as the command line plans it."""
    local_planner.cache_clear()
    stored_catalogues.cache_clear()
    plan = json.loads(run("plan", "llama-3.1-8b:Q4_K_M", "--gpu", "rtx-3090", "-c", "4096", "--json"))
    return float(plan["speed"]["decode_tokens_per_s"]["mid"])


@pytest.mark.usefixtures("database_path")
def test_imported_files_move_the_next_plan(tmp_path: Path) -> None:
    """Files and standard input are imported, and plans from the command line follow what they say."""
    before = speed()
    assert not holds_measurements()
    (tmp_path / "bench.json").write_text(as_json([row(avg_ts=120.0)]), "utf-8")
    said = run("measurements", "import", str(tmp_path / "bench.json"))
    assert "1 accepted, 0 quarantined" in said
    assert holds_measurements()
    assert speed() < before
    again = run("measurements", "import", "-", "--gpu", "rtx-3090", stdin=as_markdown([row(n_gen=256)], "ngl"))
    assert "1 accepted" in again


@pytest.mark.usefixtures("database_path")
def test_measurements_are_listed(tmp_path: Path) -> None:
    """The list shows what became of every figure."""
    assert "no such measurements" in run("measurements", "list")
    (tmp_path / "bench.json").write_text(as_json([row(), row(avg_ts=900.0)]), "utf-8")
    run("measurements", "import", str(tmp_path / "bench.json"))
    assert "beyond-bandwidth" in "".join(run("measurements", "list", "--status", "quarantined").split())


@pytest.mark.usefixtures("database_path")
def test_a_measurement_is_withdrawn(tmp_path: Path) -> None:
    """By the id that the list shows; the next plan is what it was before."""
    before = speed()
    (tmp_path / "bench.json").write_text(as_json([row(avg_ts=120.0)]), "utf-8")
    run("measurements", "import", str(tmp_path / "bench.json"))
    assert speed() < before
    (measurement_id,) = re.findall(r"mea_[0-9a-f]{32}", run("measurements", "list", "--ids"))
    said = run("measurements", "withdraw", measurement_id, "--reason", "throttled")
    assert "withdrawn" in "".join(said.split())
    assert speed() == before
    answer = CliRunner().invoke(app, ["measurements", "withdraw", "mea_none", "--reason", "throttled"])
    assert (answer.exit_code, "no measurement" in answer.stderr) == (2, True)


@pytest.mark.usefixtures("database_path")
def test_what_cannot_be_imported_is_a_problem(tmp_path: Path) -> None:
    """A missing file, prose and an unknown card are refused with status 2 and a sentence."""
    (tmp_path / "prose.txt").write_text("it is fast", "utf-8")
    for arguments in (["nowhere.json"], [str(tmp_path / "prose.txt")]):
        answer = CliRunner().invoke(app, ["measurements", "import", *arguments])
        assert answer.exit_code == 2
        assert "rigfit: " in answer.stderr


def test_a_database_without_tables_holds_no_measurements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is no database, and one that is not there, are no reason to fail."""
    path = tmp_path / "no.sqlite3"
    monkeypatch.setenv("RIGFIT_DATABASE_URL", f"sqlite:///{path}")
    settings.cache_clear()
    assert not holds_measurements()
    path.write_bytes(b"nothing of the kind, but longer than the header of a database would be" * 4)
    assert not holds_measurements()
