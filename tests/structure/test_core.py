"""The core is pure: it imports arithmetic, nothing that reads, waits or guesses."""

import ast
import sys
from pathlib import Path

import pytest

from tests.structure.repository import python_files, syntax

ALLOWED_PACKAGES = {"numpy", "service"}
IMPURE_MODULES = {
    "asyncio", "csv", "glob", "http", "io", "json", "logging", "lzma", "multiprocessing", "os", "pathlib",
    "random", "secrets", "shutil", "socket", "sqlite3", "subprocess", "sys", "tempfile", "threading", "time", "tomllib",
    "urllib", "uuid", "warnings",
}  # fmt: skip
IMPURE_FUNCTIONS = {"open", "print", "input", "exec", "eval", "__import__"}
CLOCKS = {"now", "today", "utcnow"}


def imported(path: Path) -> set[str]:
    """Modules that a file imports, by full name."""
    names: set[str] = set()
    for node in ast.walk(syntax(path)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


@pytest.mark.parametrize("path", python_files("service/core"), ids=str)
def test_core_imports_only_the_standard_library_and_numpy(path: Path) -> None:
    """A rule needs numbers: no input, output, clock or chance, and no other part of the service."""
    roots = {name.partition(".")[0] for name in imported(path)}
    assert roots - ALLOWED_PACKAGES - sys.stdlib_module_names == set()
    assert roots & IMPURE_MODULES == set()
    assert {
        name for name in imported(path) if name.startswith("service") and not name.startswith("service.core")
    } == set()


@pytest.mark.parametrize("path", python_files("service/core"), ids=str)
def test_core_calls_nothing_impure(path: Path) -> None:
    """No rule opens a file, prints, or asks what time it is."""
    called = [node.func for node in ast.walk(syntax(path)) if isinstance(node, ast.Call)]
    assert {function.id for function in called if isinstance(function, ast.Name)} & IMPURE_FUNCTIONS == set()
    assert {function.attr for function in called if isinstance(function, ast.Attribute)} & CLOCKS == set()
