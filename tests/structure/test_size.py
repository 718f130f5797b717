"""Files and functions stay small enough to be read at once."""

from tests.structure.repository import ROOT, functions, python_files, syntax

LONGEST_FILE_LINES = 300
LONGEST_FUNCTION_LINES = 50


def test_files_are_short() -> None:
    """One noun per file: none of the service is longer than 300 lines."""
    lines = {str(path): len((ROOT / path).read_text("utf-8").splitlines()) for path in python_files("service")}
    assert {path: count for path, count in lines.items() if count > LONGEST_FILE_LINES} == {}


def test_functions_are_short() -> None:
    """One rule per function: none of the service is longer than 50 lines."""
    lines = {
        f"{path}:{function.lineno} {function.name}": (function.end_lineno or 0) - function.lineno + 1
        for path in python_files("service")
        for function in functions(syntax(path))
    }
    assert {name: count for name, count in lines.items() if count > LONGEST_FUNCTION_LINES} == {}
