"""Every setting is documented and can be set from outside."""

import pytest
from pydantic import ValidationError

from service.settings import Settings
from tests.structure import settings_table
from tests.structure.repository import ROOT, python_files


@pytest.mark.parametrize("name", Settings.model_fields)
def test_setting_is_documented(name: str) -> None:
    """A setting has a sentence that says what it does."""
    description = Settings.model_fields[name].description
    assert description is not None
    assert description.endswith(".")


def test_the_readme_lists_every_setting() -> None:
    """Its table says of each variable what the class says; python -m tests.structure.settings_table writes it anew."""
    assert settings_table.written() == settings_table.table()


@pytest.mark.parametrize("name", Settings.model_fields)
def test_setting_has_an_effect(name: str) -> None:
    """Some part of the service reads it."""
    assert any(f".{name}" in (ROOT / path).read_text("utf-8") for path in python_files("service"))


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that starts with RIGFIT_ replaces the default."""
    monkeypatch.setenv("RIGFIT_PORT", "8080")
    assert Settings().port == 8080


def test_names_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists need no quotes and brackets."""
    monkeypatch.setenv("RIGFIT_MODEL_HOSTS", "huggingface.co, *.hf.co,")
    assert Settings().model_hosts == ("huggingface.co", "*.hf.co")
    monkeypatch.setenv("RIGFIT_MODEL_HOSTS", ",")
    assert Settings().model_hosts == ()


def test_senseless_settings_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value outside what a setting can mean stops the process before it serves."""
    monkeypatch.setenv("RIGFIT_PORT", "70000")
    with pytest.raises(ValidationError, match="port"):
        Settings()


def test_settings_cannot_be_changed() -> None:
    """What a process was started with stays."""
    with pytest.raises(ValidationError, match="frozen"):
        Settings().port = 1  # type: ignore[misc]
