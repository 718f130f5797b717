"""What must never be committed: addresses of registries, paths of a machine, work left open."""

import re

import pytest

from tests.structure.repository import ROOT, tracked_files

# spelled so that this file does not find itself
REGISTRY_HOSTS = r"pypi\.[o]rg|python[h]osted\.org|registry\.npm[j]s\.org|deb\.[d]ebian\.org"
INDEX_OPTIONS = r"--index-[u]rl|--extra-[i]ndex|\[\[tool\.uv\.[i]ndex\]\]"
MACHINE_PATHS = r"(?<![\w.])/(?:[w]ork|[r]oot|[h]ome/\w+)/"
LEFT_OPEN = r"\b(?:TO[D]O|FIX[M]E|X[X]X|NotImplemented[E]rror)\b|pytest\.(?:mark\.)?[s]kip|\bx[f]ail\b"
WRITING_AIDS = r"(?i)[c]laude|[a]nthropic|[c]opilot|[c]o-authored-by"
TEXT_SUFFIXES = {".py", ".toml", ".md", ".yaml", ".yml", ".txt", ".csv", ".json", ".jsonl", ".mako", ".cfg", ".ini", ""}


@pytest.mark.parametrize(
    "pattern",
    [REGISTRY_HOSTS, INDEX_OPTIONS, MACHINE_PATHS, LEFT_OPEN],
    ids=["registries", "indexes", "paths", "open work"],
)
def test_tracked_files_hold_nothing_of_one_machine(pattern: str) -> None:
    """A clone works anywhere and nothing in it is unfinished."""
    forbidden = re.compile(pattern)
    found = [
        f"{path}:{number}: {line.strip()[:120]}"
        for path in tracked_files()
        if path.suffix in TEXT_SUFFIXES
        for number, line in enumerate((ROOT / path).read_text("utf-8").splitlines(), start=1)
        if forbidden.search(line)
    ]
    assert found == []


def test_requirements_are_pinned_and_hashed() -> None:
    """Every package has one version and at least one hash, and no file names where it comes from."""
    for name in ("requirements.txt", "requirements-dev.txt", "requirements-build.txt"):
        lines = (ROOT / name).read_text("utf-8").splitlines()
        packages = [index for index, line in enumerate(lines) if re.match(r"[A-Za-z0-9]", line)]
        assert packages
        for index in packages:
            assert re.match(r"[a-z0-9.-]+==[\w.!+]+( ; .*)? \\$", lines[index]), lines[index]
            assert lines[index + 1].startswith("    --hash=sha256:"), lines[index]


def test_development_installs_what_production_installs() -> None:
    """Tests run on the very versions that serve."""
    pins = {
        name: {line for line in (ROOT / name).read_text("utf-8").splitlines() if "==" in line}
        for name in ("requirements.txt", "requirements-dev.txt")
    }
    assert pins["requirements.txt"] <= pins["requirements-dev.txt"]
