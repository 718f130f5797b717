"""What is installed is known: every package with its licence, and none that asks for more than is given."""

import re

import pytest

from benchmarks.dependency_report import FILE_COPYLEFT, PERMISSIVE, Dependency, dependencies, report
from tests.structure.repository import ROOT

FOUND = tuple(dependencies())


def test_the_report_is_current() -> None:
    """After a change of the pins `python -m benchmarks.dependency_report > docs/dependencies.md` was run."""
    assert (ROOT / "docs" / "dependencies.md").read_text("utf-8") == report()


@pytest.mark.parametrize("dependency", FOUND, ids=lambda dependency: dependency.name)
def test_every_licence_is_one_that_was_thought_about(dependency: Dependency) -> None:
    """A package with another licence, or with none that it states, is not installed unnoticed."""
    assert dependency.licences
    assert dependency.licences <= PERMISSIVE | FILE_COPYLEFT


def test_every_pin_is_in_the_report() -> None:
    """But for those that other systems than Linux and macOS need."""
    pins = re.findall(r"^([a-z0-9.-]+)==\S+(.*)$", (ROOT / "requirements-tracing.txt").read_text("utf-8"), re.MULTILINE)
    foreign = re.compile(r"sys_platform == '(?:win32|emscripten)'")
    expected = {name for name, marker in pins if not foreign.search(marker)}
    assert expected <= {dependency.name for dependency in FOUND}


def test_traces_add_packages_and_change_none() -> None:
    """Every pin without the extra stands in the requirements with it, with the same digests."""

    def pins(name: str) -> set[str]:
        text = (ROOT / name).read_text("utf-8")
        return {re.sub(r"\n +#.*", "", block) for block in re.split(r"\n(?=[a-z0-9])", text) if "==" in block}

    with_traces = pins("requirements-tracing.txt")
    assert pins("requirements.txt") < with_traces
    extra = {dependency.name for dependency in FOUND if dependency.is_extra}
    assert "opentelemetry-sdk" in extra
    assert not any(name.startswith("opentelemetry-exporter") for name in {d.name for d in FOUND} - extra)
