"""Models for tests that hold for every architecture: of the catalogue, and all small ones of the golden tables."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from service.builtin import builtin_folder
from service.core.types import Model
from tests.models import (
    GOLDEN_ARCH_HEADERS,
    GOLDEN_GRAPH_HEADERS,
    load_architecture_model,
    load_graph_model,
    load_model,
)

SUFFIX = ".gguf.xz"


@cache
def catalogue_models() -> Mapping[str, Model]:
    """The last model of every architecture of the catalogue, by name."""
    by_architecture: dict[str, tuple[str, Model]] = {}
    for folder in sorted(builtin_folder("model_db").iterdir()):
        if folder.is_dir():
            reference = f"{folder.name}:{_names(folder)[0]}"
            model = load_model(reference)
            by_architecture[model.architecture] = reference, model
    return MappingProxyType(dict(by_architecture.values()))


@cache
def small_models() -> Mapping[str, Model]:
    """Every small model of the golden tables, by name."""
    tiny = {name: load_architecture_model(name) for name in _names(GOLDEN_ARCH_HEADERS)}
    return MappingProxyType(tiny | {name: load_graph_model(name) for name in _names(GOLDEN_GRAPH_HEADERS)})


def _names(folder: Path) -> list[str]:
    return sorted(path.name.removesuffix(SUFFIX) for path in folder.glob("*" + SUFFIX))
