"""A real header under a name of its own, as files that hosts of tests serve."""

from collections.abc import Mapping
from dataclasses import replace

from service.gguf.writer import write_header
from tests.models import load_model

SIZE_BYTES = 2_000_000_000


def named_header(name: str) -> bytes:
    """The header of a model of the catalogue that calls itself `name`."""
    model = load_model("llama-3.2-1b:Q4_K_M")
    return write_header(replace(model, metadata={**model.metadata, "general.name": name}))


def split_headers(name: str, count: int) -> Mapping[str, bytes]:
    """The same model split into files, as gguf-split would: metadata in the first, tensors in all."""
    model = load_model("llama-3.2-1b:Q4_K_M")
    parts = {}
    for number in range(count):
        split = {"split.no": number, "split.count": count, "split.tensors.count": len(model.tensors)}
        metadata = {**model.metadata, "general.name": name} if number == 0 else {"general.architecture": "llama"}
        tensors = model.tensors[number::count]
        part = replace(model, metadata={**metadata, **split}, tensors=tensors)
        parts[f"house-{number + 1:05d}-of-{count:05d}.gguf"] = write_header(part)
    return parts


HEADER = named_header("House 3.2 1B Instruct")
