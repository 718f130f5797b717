"""`rigfit cache`."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from service.settings import settings
from service.shells.cli import app
from service.store.graph_file import NAME, GraphFile, GraphRow


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where graphs are kept, by the settings."""
    monkeypatch.setenv("RIGFIT_CACHE_FOLDER", str(tmp_path))
    settings.cache_clear()
    return tmp_path


def rigfit(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["cache", *arguments])


def test_what_is_kept_is_shown_and_deleted(folder: Path) -> None:
    """The file, the number of graphs, and its size; afterwards there is none."""
    assert rigfit().stdout == f"{folder / NAME}: nothing is kept\n"
    file = GraphFile(folder, 1 << 20)
    file.keep([GraphRow(bytes([number]), b"pieces") for number in range(3)], [], [], 1)
    file.close()
    shown = rigfit().stdout
    assert shown.startswith(f"{folder / NAME}: 3 compute graphs in ")
    assert f"{(folder / NAME).stat().st_size:,} bytes" in shown
    assert rigfit("--clear").stdout == f"{folder / NAME}: nothing is kept\n"
    assert list(folder.iterdir()) == []


def test_a_file_that_cannot_be_read_can_be_deleted(folder: Path) -> None:
    """It is a problem that says how."""
    (folder / NAME).write_bytes(b"no database " * 1000)
    ran = rigfit()
    assert ran.exit_code != 0
    assert "rigfit cache --clear" in ran.output
    assert rigfit("--clear").exit_code == 0
    assert list(folder.iterdir()) == []
