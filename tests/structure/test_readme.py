"""What the README shows is what the commands say.

Each ```console block is run: a line that starts with "$ " is a command, the lines up to the next are what it prints,
where a line "…" stands for any lines. Commands against http://127.0.0.1:8000 reach a server of this checkout.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.databases import Databases, migrate_and_seed
from tests.servers import served
from tests.structure.repository import ROOT

SERVED_AT = "http://127.0.0.1:8000"
# these set up what runs this test
SETTING_UP = ("git clone", "cd ", "script/server", "script/test", "script/setup", "docker", "POSTGRES_PASSWORD=")
ANY_LINES = "…"


def readme() -> str:
    """Text of the README, "" before there is one."""
    path = ROOT / "README.md"
    return path.read_text("utf-8") if path.is_file() else ""


def examples() -> Iterator[tuple[str, str]]:
    """Commands of the README, each with what it should print."""
    for block in re.findall(r"^```console\n(.*?)^```", readme(), re.MULTILINE | re.DOTALL):
        yield from re.findall(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)


def commands(*, setting_up: bool) -> list[tuple[str, str]]:
    return [example for example in examples() if example[0].startswith(SETTING_UP) == setting_up]


@pytest.fixture(scope="module")
def address(sqlite: Databases) -> Iterator[str]:
    """Address of a server of this checkout."""
    with served(sqlite) as address:
        yield address


@pytest.mark.parametrize(
    ("command", "output"), commands(setting_up=False), ids=lambda text: text.partition("\n")[0][:60]
)
def test_example_prints_what_the_readme_shows(command: str, output: str, address: str, sqlite: Databases) -> None:
    """An example of the README, pasted into a shell, prints what stands below it."""
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "RIGFIT_DATABASE_URL": sqlite.copy_of("seeded", migrate_and_seed),
        "COLUMNS": "120",
        "NO_COLOR": "1",
    }
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command.replace(SERVED_AT, address)],
        cwd=ROOT,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    printed = "".join(f"{line.rstrip()}\n" for line in ran.stdout.splitlines())
    if output:
        assert re.fullmatch(as_pattern(output), printed), printed


def as_pattern(output: str) -> str:
    """Expression that matches an output as the README shows it."""
    lines = (line.rstrip() for line in output.splitlines())
    return "".join(r"(?:.*\n)*?" if line == ANY_LINES else re.escape(line) + r"\n" for line in lines)


def test_the_readme_starts_with_the_two_commands() -> None:
    """A newcomer is told to serve with one command and to test with another, and both are there to run."""
    scripts = [shlex.split(command)[0] for command, _ in commands(setting_up=True) if command.startswith("script/")]
    assert scripts[:2] == ["script/server", "script/test"]
    assert all(os.access(ROOT / script, os.X_OK) for script in scripts)


def test_the_readme_shows_what_the_service_answers() -> None:
    """There are examples to run: of the command line and of HTTP."""
    shown = [command for command, output in commands(setting_up=False) if output]
    assert any(command.startswith("rigfit plan") for command in shown)
    assert any(SERVED_AT in command for command in shown)


def test_links_of_the_readme_lead_somewhere() -> None:
    """Every file that the README links to is in the repository."""
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", readme())
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
