"""Marks on the tests of a folder that need a program which is not everywhere."""

from collections.abc import Iterable
from pathlib import Path

import pytest


def mark_folder(items: Iterable[pytest.Item], folder: Path, mark: str) -> None:
    """Mark the tests of a folder, and keep them together in one process."""
    for item in items:
        if item.path.is_relative_to(folder):
            item.add_marker(mark)
            item.add_marker(pytest.mark.xdist_group(mark))
