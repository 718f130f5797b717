"""The project's own files, for tests that read them."""

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@cache
def tracked_files() -> tuple[Path, ...]:
    """Files that git tracks and that are there, relative to the root."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return tuple(path for name in listed.split("\0") if name and (ROOT / (path := Path(name))).is_file())


def python_files(folder: str) -> list[Path]:
    """Tracked Python files below a folder, relative to the root."""
    return [path for path in tracked_files() if path.suffix == ".py" and path.is_relative_to(folder)]


@cache
def syntax(path: Path) -> ast.Module:
    """Parse a file given relative to the root."""
    return ast.parse((ROOT / path).read_text("utf-8"))


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method of a module."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
