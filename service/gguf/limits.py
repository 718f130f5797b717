"""How much a header may ask for before it is refused."""

from dataclasses import dataclass

from service.core.units import MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLimits:
    """Bounds on what is walked and on what is kept of one header.

    Real headers stay well below each of them: the longest vocabularies have about 300,000 tokens and 500,000
    merges in some 20 MB, the longest chat templates some 20 KB, the longest tensor tables a few thousand rows.
    `header_bytes` bounds the walk; the counts and `kept_*` bound the memory.
    """

    header_bytes: int = 64 * MIB
    metadata_entries: int = 4096
    tensors: int = 65_536
    array_elements: int = 2 * 1024 * 1024
    key_bytes: int = 1024
    alignment_bytes: int = 1 * MIB
    # arrays up to these lengths are kept as tuples, longer ones are counted
    kept_numbers: int = 4096
    kept_texts: int = 256
    # over the whole header
    kept_elements: int = 262_144
    kept_text_bytes: int = 4 * MIB


DEFAULT_LIMITS = ReadLimits()

MAX_TENSOR_NAME_BYTES = 63
"""Longest tensor name. Source: GGML_MAX_NAME (64, with its terminator), ggml/include/ggml.h:229 (llama.cpp in
llama-cpp-python 0.3.36)."""

MAX_TENSOR_DIMENSIONS = 4
"""Source: GGML_MAX_DIMS, ggml/include/ggml.h:222 (llama.cpp in llama-cpp-python 0.3.36)."""

MAX_PARTS = 512
"""Most files of a split model; the largest that are published have some fifty."""
