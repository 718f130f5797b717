"""Where several workers count together; named before prometheus_client is imported, which looks for it then."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

FOLDER_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"


@contextmanager
def shared_folder(workers: int) -> Iterator[None]:
    """Give workers that are started in the block a folder of their own; one that an operator named stays."""
    if workers == 1 or FOLDER_VARIABLE in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="rigfit-metrics-") as folder:
        os.environ[FOLDER_VARIABLE] = folder
        try:
            yield
        finally:
            del os.environ[FOLDER_VARIABLE]
