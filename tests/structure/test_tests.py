"""Tests say what they show."""

import ast

from tests.structure.repository import functions, python_files, syntax


def test_every_test_is_described_in_one_sentence() -> None:
    """Each test function has a docstring of one sentence, on one line or wrapped, ending in a full stop."""
    undescribed = [
        f"{path}:{function.lineno} {function.name}"
        for path in python_files("tests")
        for function in functions(syntax(path))
        if function.name.startswith("test_") and not is_one_sentence(ast.get_docstring(function))
    ]
    assert undescribed == []


def is_one_sentence(docstring: str | None) -> bool:
    """True for one paragraph that ends in a full stop."""
    return docstring is not None and docstring.endswith(".") and "\n\n" not in docstring


def test_every_test_can_fail() -> None:
    """Each test asserts something itself or through a function it calls."""
    idle = [
        f"{path}:{function.lineno} {function.name}"
        for path in python_files("tests")
        for function in functions(syntax(path))
        if function.name.startswith("test_") and not any(map(is_check, ast.walk(function)))
    ]
    assert idle == []


def is_check(node: ast.AST) -> bool:
    """True for an assertion, an expected exception and a call of a function that checks."""
    if isinstance(node, ast.Assert):
        return True
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name in {"expect", "raises", "validate"} or name.startswith(("assert_", "check_", "expect_"))
