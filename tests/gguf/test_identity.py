"""A model's id follows what the model is, not how its file is written."""

import pytest

from service.gguf.reader import read_header
from tests.gguf.gguf_bytes import ARCHITECTURE, BIG, LITTLE, TEXT, U8, U32, U64, header

NAME = LITTLE.pair("general.name", TEXT, "m")
TENSOR = LITTLE.tensor("a", [8])
REFERENCE = header(NAME, tensors=[TENSOR])

SAME = {
    "version 2": header(NAME, tensors=[TENSOR], version=2),
    "keys in another order": LITTLE.preamble(1, 2) + NAME + ARCHITECTURE + TENSOR,
    "big-endian": b"".join(
        [
            BIG.preamble(1, 2),
            BIG.pair("general.architecture", TEXT, "llama"),
            BIG.pair("general.name", TEXT, "m"),
            BIG.tensor("a", [8]),
        ]
    ),
}
OTHER = {
    "name": header(LITTLE.pair("general.name", TEXT, "n"), tensors=[TENSOR]),
    "shape": header(NAME, tensors=[LITTLE.tensor("a", [4, 2])]),
    "type": header(NAME, tensors=[LITTLE.tensor("a", [8], type_id=1)]),
    "tensor's name": header(NAME, tensors=[LITTLE.tensor("b", [8])]),
    "further key": header(NAME, LITTLE.pair("llama.block_count", U32, 1), tensors=[TENSOR]),
    "long array": header(NAME, LITTLE.array("a", U8, bytes(5000)), tensors=[TENSOR]),
}


@pytest.mark.parametrize("content", SAME.values(), ids=SAME.keys())
def test_the_same_model_has_the_same_id(content: bytes) -> None:
    """Version, byte order and the order of keys are no part of a model."""
    assert read_header(content).id == read_header(REFERENCE).id


def test_every_difference_makes_another_id() -> None:
    """Metadata, names, shapes and types are."""
    ids = {read_header(content).id for content in (REFERENCE, *OTHER.values())}
    assert len(ids) == 1 + len(OTHER)


def test_the_width_of_a_number_is_no_part_of_it() -> None:
    """4 is 4 in eight bits and in sixty-four."""
    narrow, wide = (read_header(header(LITTLE.pair("n", value_type, 4))) for value_type in (U32, U64))
    assert narrow.id == wide.id


def test_the_id_is_a_sha256() -> None:
    """As a content address is written."""
    prefix, _, digest = read_header(REFERENCE).id.partition(":")
    assert prefix == "sha256"
    assert len(bytes.fromhex(digest)) == 32
