"""A model's quant is what its file says, else what most of it is."""

import re

import pytest
from gguf import LlamaFileType

from service.gguf.file_types import FILE_TYPE_NAMES
from service.gguf.reader import read_header
from tests.gguf.gguf_bytes import LITTLE, TEXT, U32, header

F16, Q8_0 = 1, 8


def test_file_types_are_those_of_the_package() -> None:
    """Every value the package has is named alike, and only newer ones are added."""
    package = {
        int(file_type): re.sub("^(ALL|MOSTLY)_", "", file_type.name)
        for file_type in LlamaFileType
        if file_type is not LlamaFileType.GUESSED
    }
    assert FILE_TYPE_NAMES.items() >= package.items()
    assert all(value > max(package) for value in FILE_TYPE_NAMES.keys() - package.keys())


@pytest.mark.parametrize(
    ("pairs", "quant"),
    [
        ([LITTLE.pair("general.file_type", U32, 15)], "Q4_K_M"),
        ([LITTLE.pair("general.file_type", U32, 999)], "Q8_0"),
        ([LITTLE.pair("general.file_type", TEXT, "Q4_K_M")], "Q8_0"),
        ([], "Q8_0"),
    ],
)
def test_the_file_type_names_the_quant(pairs: list[bytes], quant: str) -> None:
    """Without a known one, the type that holds most bytes does."""
    tensors = [
        LITTLE.tensor("a", [32], type_id=F16),
        LITTLE.tensor("b", [32], type_id=F16, offset=64),
        LITTLE.tensor("c", [32, 64], type_id=Q8_0, offset=128),
    ]
    assert read_header(header(*pairs, tensors=tensors)).quant == quant


def test_no_tensors_no_quant() -> None:
    """A vocabulary has none."""
    assert read_header(header()).quant is None
