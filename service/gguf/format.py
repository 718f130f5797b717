"""Constants of the GGUF file format.

Source: ggml/include/gguf.h:41-69 and GGUF_TYPE_SIZE, ggml/src/gguf.cpp:90 (llama.cpp in llama-cpp-python 0.3.36).
"""

from collections.abc import Mapping
from enum import IntEnum

MAGIC = b"GGUF"
READABLE_VERSIONS = (2, 3)
WRITTEN_VERSION = 3
ALIGNMENT_KEY = "general.alignment"
DEFAULT_ALIGNMENT_BYTES = 32

# an empty text is its length alone
SHORTEST_TEXT_BYTES = 8


class ValueType(IntEnum):
    """Type of a metadata value, by the number in the file (gguf_type)."""

    U8 = 0
    I8 = 1
    U16 = 2
    I16 = 3
    U32 = 4
    I32 = 5
    F32 = 6
    BOOL = 7
    TEXT = 8
    ARRAY = 9
    U64 = 10
    I64 = 11
    F64 = 12


NUMBER_CODES: Mapping[int, str] = {
    ValueType.U8: "B",
    ValueType.I8: "b",
    ValueType.U16: "H",
    ValueType.I16: "h",
    ValueType.U32: "I",
    ValueType.I32: "i",
    ValueType.F32: "f",
    ValueType.BOOL: "?",
    ValueType.U64: "Q",
    ValueType.I64: "q",
    ValueType.F64: "d",
}
"""struct codes of the types that are neither text nor array."""
