"""The image as the Dockerfile's steps make it, once for all tests of it."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.containers.dockerfile import Image


@pytest.fixture(scope="session")
def image() -> Iterator[Image]:
    """The built image; not in pytest's own folder, which the user of the image may not enter."""
    folder = Path(tempfile.mkdtemp(prefix="rigfit-image-"))
    folder.chmod(0o755)
    built = Image(folder / "root")
    try:
        built.build()
        yield built
    finally:
        shutil.rmtree(folder, ignore_errors=True)
