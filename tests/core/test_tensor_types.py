"""The table of tensor types agrees with the `gguf` package."""

import pytest
from gguf import GGMLQuantizationType
from gguf.constants import GGML_QUANT_SIZES

from service.core.tensor_types import REMOVED_TENSOR_TYPES, TENSOR_TYPE_BY_NAME, TENSOR_TYPES

# two halves and 32 bytes, ggml-common.h:258-269; the package still has two floats. Never stored in files.
Q8_1_BLOCK_BYTES = 36
# elements and bytes of a block: two bits each and a half, ggml-common.h:187-192
NEWER_THAN_THE_PACKAGE = {"q2_0": (64, 64 * 2 // 8 + 2)}


@pytest.mark.parametrize("package_type", GGML_QUANT_SIZES)
def test_block_sizes_are_those_of_the_package(package_type: GGMLQuantizationType) -> None:
    """Id, name, elements and bytes of a block."""
    ours = TENSOR_TYPES[package_type]
    block_elements, block_bytes = GGML_QUANT_SIZES[package_type]
    assert ours.name.upper() == package_type.name
    assert ours.block_elements == block_elements
    assert ours.block_bytes == (Q8_1_BLOCK_BYTES if ours.name == "q8_1" else block_bytes)


def test_only_newer_types_are_added() -> None:
    """Nothing else is in the table, and nothing that ggml removed."""
    added = {
        tensor_type.name: (tensor_type.block_elements, tensor_type.block_bytes)
        for id_, tensor_type in TENSOR_TYPES.items()
        if id_ not in set(GGML_QUANT_SIZES)
    }
    assert added == NEWER_THAN_THE_PACKAGE
    assert not TENSOR_TYPES.keys() & REMOVED_TENSOR_TYPES.keys()
    assert len(TENSOR_TYPE_BY_NAME) == len(TENSOR_TYPES)
