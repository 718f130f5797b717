"""Models for tests: `load_model("llama-3.3-70b:Q4_K_M")` of the catalogue, `load_architecture_model("arctic-moe")`."""

import lzma
from functools import cache
from pathlib import Path

from service.builtin import builtin_folder
from service.core.types import Model
from service.gguf.reader import read_header

GOLDEN_ARCH_HEADERS = Path(__file__).parent / "golden" / "arch_headers"
GOLDEN_GRAPH_HEADERS = Path(__file__).parent / "golden" / "graph_headers"


@cache
def load_model(reference: str) -> Model:
    """A catalogue model by its exact name:quant, parsed once per test run."""
    name, _, quant = reference.partition(":")
    return _parse(builtin_folder("model_db") / name / f"{quant}.gguf.xz")


@cache
def load_architecture_model(name: str) -> Model:
    """One of the tiny models of tests/golden/arch_headers, by the name architectures.jsonl uses."""
    return _parse(GOLDEN_ARCH_HEADERS / f"{name}.gguf.xz")


@cache
def load_graph_model(name: str) -> Model:
    """One of the small models of tests/golden/graph_headers, by the name graphs.jsonl uses."""
    return _parse(GOLDEN_GRAPH_HEADERS / f"{name}.gguf.xz")


def _parse(path: Path) -> Model:
    return read_header(lzma.decompress(path.read_bytes()))
