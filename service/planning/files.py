"""Models in files of this computer."""

from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path

from service.core.problems import InvalidRequest
from service.core.types import Model
from service.gguf.reader import read_split_headers
from service.gguf.splits import part_names


@lru_cache(maxsize=64)
def read_model_file(path: Path) -> Model:
    """Read the header of a GGUF file, with those of the other parts where it is one of several.

    Raises InvalidRequest where a file cannot be opened, UnreadableModel where it is no GGUF.
    """
    try:
        with ExitStack() as opened:
            parts = [opened.enter_context(path.with_name(name).open("rb")) for name in part_names(path.name)]
            return read_split_headers(parts)
    except OSError as error:
        raise InvalidRequest(f"{error.filename} cannot be read: {error.strerror}.", fields=("model.path",)) from None
