"""The reader agrees with the `gguf` package on whatever that package writes."""

import io
import lzma
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFEndian, GGUFReader, GGUFValueType, GGUFWriter
from gguf.constants import GGML_QUANT_SIZES
from hypothesis import given, settings
from hypothesis import strategies as st

from service.builtin import builtin_folder
from service.core.problems import UnreadableModel
from service.core.types import LongArray, MetadataValue, Model
from service.gguf.reader import read_header
from tests.gguf.gguf_bytes import BIG, F32, LITTLE, TEXT, U32, header

# 36 bytes in ggml-common.h (two halves, 32 bytes), 40 in the package (two floats of old); never stored in files
STORED_TYPES = sorted(set(GGML_QUANT_SIZES) - {GGMLQuantizationType.Q8_1})

Typed = tuple[GGUFValueType, Any, GGUFValueType | None]
TensorFacts = tuple[str, GGMLQuantizationType, tuple[int, ...]]

INTEGERS = {
    GGUFValueType.UINT8: (0, 2**8 - 1),
    GGUFValueType.INT8: (-(2**7), 2**7 - 1),
    GGUFValueType.UINT16: (0, 2**16 - 1),
    GGUFValueType.INT16: (-(2**15), 2**15 - 1),
    GGUFValueType.UINT32: (0, 2**32 - 1),
    GGUFValueType.INT32: (-(2**31), 2**31 - 1),
    GGUFValueType.UINT64: (0, 2**64 - 1),
    GGUFValueType.INT64: (-(2**63), 2**63 - 1),
}
ELEMENTS: dict[GGUFValueType, st.SearchStrategy[Any]] = {
    **{value_type: st.integers(least, most) for value_type, (least, most) in INTEGERS.items()},
    GGUFValueType.FLOAT32: st.floats(width=32, allow_nan=False),
    GGUFValueType.FLOAT64: st.floats(allow_nan=False),
    GGUFValueType.BOOL: st.booleans(),
    GGUFValueType.STRING: st.text(max_size=20),
}
KEYS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=30).map("x.".__add__)


def scalars() -> st.SearchStrategy[Typed]:
    """A value of any scalar type."""
    return st.one_of([st.tuples(st.just(value_type), value, st.none()) for value_type, value in ELEMENTS.items()])


def arrays() -> st.SearchStrategy[Typed]:
    """An array of any element type; the writer refuses empty ones."""
    return st.one_of(
        [
            st.tuples(st.just(GGUFValueType.ARRAY), st.lists(elements, min_size=1, max_size=300), st.just(value_type))
            for value_type, elements in ELEMENTS.items()
        ]
    )


@st.composite
def tensors(draw: st.DrawFn) -> list[TensorFacts]:
    """Tensors of every stored type, of one to four dimensions."""
    names = draw(st.lists(st.text("abc.0123é", min_size=1, max_size=20), max_size=6, unique=True))
    facts = []
    for name in names:
        tensor_type = draw(st.sampled_from(STORED_TYPES))
        block_elements, _ = GGML_QUANT_SIZES[tensor_type]
        blocks = draw(st.integers(1, 3))
        others = draw(st.lists(st.integers(1, 4), max_size=3))
        facts.append((name, tensor_type, (blocks * block_elements, *others)))
    return facts


def write(path: Path, metadata: Mapping[str, Typed], table: list[TensorFacts], endian: GGUFEndian, version: int) -> int:
    """Write a header by the package; the size of the file its data would fill."""
    writer = GGUFWriter(path, "llama", endianess=endian)
    for key, (value_type, value, element_type) in metadata.items():
        writer.add_key_value(key, value, value_type, element_type)
    data_bytes = 0
    for name, tensor_type, shape in table:
        block_elements, block_bytes = GGML_QUANT_SIZES[tensor_type]
        size_bytes = int(np.prod(shape)) // block_elements * block_bytes
        writer.add_tensor_info(name, shape[::-1], np.dtype(np.float32), size_bytes, tensor_type)
        data_bytes += -(-size_bytes // 32) * 32
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    size_bytes = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4)
        file.write(version.to_bytes(4, "little" if endian is GGUFEndian.LITTLE else "big"))
    os.truncate(path, size_bytes + data_bytes + 64)
    return size_bytes


def assert_agrees(model: Model, package: GGUFReader) -> None:
    """Every key and every tensor as the package reads them."""
    ours = dict(model.metadata)
    for key, field in package.fields.items():
        if not key.startswith("GGUF."):
            assert_same_value(ours.pop(key), field.contents())
    assert not ours
    assert [tensor.name for tensor in model.tensors] == [tensor.name for tensor in package.tensors]
    for tensor, theirs in zip(model.tensors, package.tensors, strict=True):
        assert tensor.type.id == theirs.tensor_type
        assert list(tensor.shape) == theirs.shape.tolist()
        assert tensor.size_bytes == theirs.n_bytes


def assert_same_value(value: MetadataValue, theirs: object) -> None:
    """Equal, or of the same length where only that was kept."""
    if isinstance(value, LongArray):
        assert isinstance(theirs, list)
        assert value.count == len(theirs)
    else:
        assert (list(value) if isinstance(value, tuple) else value) == theirs


@settings(max_examples=120, deadline=None)
@given(
    metadata=st.dictionaries(KEYS, scalars() | arrays(), max_size=8),
    table=tensors(),
    endian=st.sampled_from(GGUFEndian),
    version=st.sampled_from([2, 3]),
)
def test_reads_what_the_gguf_package_writes(
    metadata: dict[str, Typed], table: list[TensorFacts], endian: GGUFEndian, version: int
) -> None:
    """Any metadata and tensors, in both byte orders and both versions, read alike."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        header_bytes = write(path, metadata, table, endian, version)
        with path.open("rb") as file:
            model = read_header(file, file_bytes=path.stat().st_size)
        assert_agrees(model, GGUFReader(path))
        assert read_header(path.read_bytes()[:header_bytes]).id == model.id


def test_the_gguf_package_agrees_on_a_real_header(tmp_path: Path) -> None:
    """GPT-OSS 20B, its file extended to full size by a hole, as the package wants it."""
    with lzma.open(builtin_folder("model_db") / "gpt-oss-20b" / "MXFP4.gguf.xz") as packed:
        content = packed.read()
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    model = read_header(content)
    os.truncate(path, len(content) + sum(tensor.size_bytes + 32 for tensor in model.tensors))
    assert_agrees(model, GGUFReader(path))


class Trickle(io.RawIOBase):
    """A stream that hands out at most `step` bytes a read, as sockets do."""

    def __init__(self, content: bytes, step: int) -> None:
        self.content = io.BytesIO(content)
        self.step = step

    def read(self, size: int = -1, /) -> bytes:
        """Up to `step` bytes."""
        return self.content.read(min(size, self.step))


@pytest.mark.parametrize("step", [1, 7, 4096])
def test_short_reads_make_no_difference(step: int) -> None:
    """A header that trickles in is the header that came at once."""
    content = header(
        LITTLE.array("tokens", TEXT, [f"token {n}" for n in range(1000)]),
        LITTLE.array("scores", F32, [0.5] * 5000),
        tensors=[LITTLE.tensor("a", [2, 3]), LITTLE.tensor("b", [4], offset=32)],
    )
    model = read_header(Trickle(content, step))
    assert model.id == read_header(content).id
    assert model.metadata["tokens"] == LongArray(count=1000)
    assert model.metadata["scores"] == LongArray(count=5000)


def test_long_arrays_are_counted_and_short_ones_kept() -> None:
    """Numbers are kept up to 4096, texts up to 256."""
    content = header(
        LITTLE.array("numbers", U32, range(4096)),
        LITTLE.array("many numbers", U32, range(4097)),
        LITTLE.array("texts", TEXT, ["é"] * 256),
        LITTLE.array("many texts", TEXT, ["é"] * 257),
    )
    metadata = read_header(content).metadata
    assert metadata["numbers"] == tuple(range(4096))
    assert metadata["many numbers"] == LongArray(count=4097)
    assert metadata["texts"] == ("é",) * 256
    assert metadata["many texts"] == LongArray(count=257)


def test_reads_no_further_than_the_tensor_table() -> None:
    """Data behind the header is neither needed nor looked at."""
    content = header(tensors=[LITTLE.tensor("a", [8])])
    assert read_header(content).id == read_header(content + b"\xff" * 1000).id


def test_values_that_are_not_utf8_are_shown_with_replacements() -> None:
    """llama.cpp takes any bytes as a value, so such a model is readable."""
    model = read_header(header(LITTLE.pair("general.name", TEXT, b"caf\xe9")))
    assert model.name == "caf\N{REPLACEMENT CHARACTER}"


def test_a_scalar_tensor_has_one_element() -> None:
    """A tensor without dimensions is one row of one element."""
    (tensor,) = read_header(header(tensors=[LITTLE.tensor("a", [])])).tensors
    assert (tensor.shape, tensor.size_bytes) == ((1,), 4)


def test_big_endian_by_hand() -> None:
    """Version and counts tell the byte order."""
    content = b"".join([BIG.preamble(1, 1), BIG.pair("general.architecture", TEXT, "llama"), BIG.tensor("a", [3])])
    model = read_header(content)
    assert (model.architecture, model.tensors[0].shape) == ("llama", (3,))


def test_tensors_outside_of_the_file_are_refused() -> None:
    """Where the file's size is known, its tensors must lie inside."""
    content = header(tensors=[LITTLE.tensor("a", [8])])
    data_offset_bytes = -(-len(content) // 32) * 32
    assert read_header(content, file_bytes=data_offset_bytes + 32).tensors
    with pytest.raises(UnreadableModel, match="end at byte"):
        read_header(content, file_bytes=data_offset_bytes + 31)
