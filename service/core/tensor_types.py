"""The ggml tensor types, by id and by name.

A table and not an import of the `gguf` package: that import costs a third of a second (numpy), and the
package lags behind ggml; a test compares this table with the package, row by row.
"""

from collections.abc import Mapping
from types import MappingProxyType

from service.core.types import TensorType

# (id, name as llama.cpp prints it and its flags take it, elements per block, bytes per block)
_ROWS = (
    (0, "f32", 1, 4),
    (1, "f16", 1, 2),
    (2, "q4_0", 32, 18),
    (3, "q4_1", 32, 20),
    (6, "q5_0", 32, 22),
    (7, "q5_1", 32, 24),
    (8, "q8_0", 32, 34),
    (9, "q8_1", 32, 36),
    (10, "q2_K", 256, 84),
    (11, "q3_K", 256, 110),
    (12, "q4_K", 256, 144),
    (13, "q5_K", 256, 176),
    (14, "q6_K", 256, 210),
    (15, "q8_K", 256, 292),
    (16, "iq2_xxs", 256, 66),
    (17, "iq2_xs", 256, 74),
    (18, "iq3_xxs", 256, 98),
    (19, "iq1_s", 256, 50),
    (20, "iq4_nl", 32, 18),
    (21, "iq3_s", 256, 110),
    (22, "iq2_s", 256, 82),
    (23, "iq4_xs", 256, 136),
    (24, "i8", 1, 1),
    (25, "i16", 1, 2),
    (26, "i32", 1, 4),
    (27, "i64", 1, 8),
    (28, "f64", 1, 8),
    (29, "iq1_m", 256, 56),
    (30, "bf16", 1, 2),
    (34, "tq1_0", 256, 54),
    (35, "tq2_0", 256, 66),
    (39, "mxfp4", 32, 17),
    (40, "nvfp4", 64, 36),
    (41, "q1_0", 128, 18),
    (42, "q2_0", 64, 18),
)

TENSOR_TYPES: Mapping[int, TensorType] = MappingProxyType(
    {
        id_: TensorType(id=id_, name=name, block_elements=block_elements, block_bytes=block_bytes)
        for id_, name, block_elements, block_bytes in _ROWS
    }
)
"""Every tensor type ggml knows, by the number written in files.

Source: `type_traits`, ggml/src/ggml.c:632-899, and the block structs of ggml/src/ggml-common.h
(llama.cpp in llama-cpp-python 0.3.36, ggml 0.25.3).
"""

TENSOR_TYPE_BY_NAME: Mapping[str, TensorType] = MappingProxyType(
    {tensor_type.name: tensor_type for tensor_type in TENSOR_TYPES.values()}
)
"""The same by ggml's name ("f16", "q8_0", "q4_K"), as `--cache-type-k` and llama.cpp's log spell it."""

REMOVED_TENSOR_TYPES: Mapping[int, str] = MappingProxyType(
    {
        4: "Q4_2",
        5: "Q4_3",
        31: "Q4_0_4_4",
        32: "Q4_0_4_8",
        33: "Q4_0_8_8",
        36: "IQ4_NL_4_4",
        37: "IQ4_NL_4_8",
        38: "IQ4_NL_8_8",
    }
)
"""Ids that ggml once had and no longer reads.

Source: enum ggml_type, ggml/include/ggml.h:389-434 (llama.cpp in llama-cpp-python 0.3.36).
"""
