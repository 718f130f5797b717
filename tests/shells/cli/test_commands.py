"""`rigfit gpus`, `models`, `models import`, `migrate` and `openapi`."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from service.gguf.writer import write_header
from tests.databases import Databases, migrate_and_seed
from tests.models import load_model
from tests.servers import COMMAND
from tests.structure.repository import ROOT


@pytest.fixture
def environment(sqlite: Databases) -> Mapping[str, str]:
    """Environment with a seeded database of one test's own."""
    return os.environ | {"RIGFIT_DATABASE_URL": sqlite.copy_of("seeded", migrate_and_seed), "COLUMNS": "120"}


def run(*arguments: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *arguments], env=environment, check=False, capture_output=True, text=True)


def test_cards_are_listed(environment: Mapping[str, str]) -> None:
    """A search shows the cards with all its words."""
    ran = run("gpus", "3090", environment=environment)
    assert [line.split()[0] for line in ran.stdout.splitlines()] == ["slug", "rtx-3090", "rtx-3090-ti"]


def test_models_are_listed(environment: Mapping[str, str]) -> None:
    """A search shows the models with all its words and the sizes of their quants."""
    ran = run("models", "gpt-oss", environment=environment)
    assert "gpt-oss-20b" in ran.stdout
    assert "MXFP4 63.4" in ran.stdout


def test_an_imported_model_can_be_planned(environment: Mapping[str, str], tmp_path: Path) -> None:
    """A file that was imported is planned by the name it got, also after the file is gone."""
    path = tmp_path / "house-model.gguf"
    path.write_bytes(write_header(load_model("llama-3.2-1b:Q4_K_M")).replace(b"Llama", b"House"))
    imported = run("models", "import", str(path), environment=environment)
    assert imported.returncode == 0, imported.stderr
    reference = imported.stdout.split()[0]
    path.unlink()
    planned = run("plan", reference, "--gpu", "rtx-3090", "-c", "2048", "--json", environment=environment)
    assert planned.returncode == 0, planned.stdout
    assert json.loads(planned.stdout)["fits"] is True


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("https://models.example/x.gguf", "Models are not fetched from models.example"),
        ("absent.gguf", "cannot be read"),
        ("./models/absent.gguf", "cannot be read"),
        ("two words", "names no model"),
    ],
)
def test_what_cannot_be_imported(environment: Mapping[str, str], source: str, said: str) -> None:
    """An address or a missing file is refused in a sentence."""
    ran = run("models", "import", source, environment=environment)
    assert ran.returncode == 2
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


def test_migrating_twice_changes_nothing(tmp_path: Path) -> None:
    """The first run makes and fills the database, the second finds nothing to do."""
    environment = os.environ | {"RIGFIT_DATABASE_URL": f"sqlite:///{tmp_path / 'new.sqlite3'}"}
    first, second = (run("migrate", environment=environment) for _ in range(2))
    assert first.returncode == second.returncode == 0
    assert "cards: 237 added" in first.stdout
    assert "models: 902 added" in first.stdout
    assert second.stdout.count("up to date") == 2


def test_the_document_is_printed(environment: Mapping[str, str]) -> None:
    """`rigfit openapi` prints the document that is committed."""
    ran = run("openapi", environment=environment)
    assert ran.stdout == (ROOT / "openapi.yaml").read_text("utf-8")
