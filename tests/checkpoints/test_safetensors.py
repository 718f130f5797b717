"""safetensors headers are read, or refused soon and in little memory."""

from contextlib import suppress
from io import BytesIO
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.checkpoints.documents import checkpoint_of, read_checkpoint, write_checkpoint
from service.checkpoints.safetensors import read_safetensors_header
from service.core.checkpoints import SAFETENSORS_BITS, CheckpointTensor
from service.core.problems import UnreadableModel
from tests.remote.checkpoints import CONFIG, SECOND, safetensors


def header(table: object) -> bytes:
    """A header that says this."""
    content = orjson.dumps(table)
    return len(content).to_bytes(8, "little") + content


def facts(dtype: object = "F32", shape: object = (2,), offsets: object = (0, 8), **more: Any) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets, **more}


REFUSED = {
    "nothing": (b"", "ends after 0 of 8"),
    "a GGUF file": (b"GGUF\x03\0\0\0" + bytes(64), "claims"),
    "2^63 bytes": ((2**63).to_bytes(8, "little"), "claims 9,223,372,036,854,775,808 bytes"),
    "an end inside": (SECOND[:40], "ends after 32 of"),
    "no JSON": ((4).to_bytes(8, "little") + b"{{{{", "is no JSON"),
    "brackets": ((90_000).to_bytes(8, "little") + b"[" * 90_000, "is no JSON"),
    "a list": (header([1]), "no table"),
    "a tensor that is a number": (header({"a": 1}), "not described by"),
    "a field too many": (header({"a": facts(x=1)}), "not described by"),
    "a field too few": (header({"a": {"dtype": "F32"}}), "not described by"),
    "an unknown type": (header({"a": facts(dtype="F7")}), "unknown type 'F7'"),
    "a type that is a list": (header({"a": facts(dtype=["F32"])}), "unknown type"),
    "a shape that is a text": (header({"a": facts(shape="2")}), "no sensible shape"),
    "a negative dimension": (header({"a": facts(shape=[-2])}), "no sensible shape"),
    "a broken dimension": (header({"a": facts(shape=[2.5])}), "no sensible shape"),
    "a truth as dimension": (header({"a": facts(shape=[True])}), "no sensible shape"),
    "a hundred dimensions": (header({"a": facts(shape=[1] * 100)}), "no sensible shape"),
    "dimensions of 2^60": (header({"a": facts(shape=[2**60] * 2)}), "no sensible shape"),
    "three offsets": (header({"a": facts(offsets=[0, 4, 8])}), "no sensible shape"),
    "another size": (header({"a": facts(offsets=[0, 9])}), "takes 8.0 bytes"),
    "backwards": (header({"a": facts(offsets=[8, 0])}), "takes 8.0 bytes"),
    "half a byte": (header({"a": facts(dtype="F4", shape=[3], offsets=[0, 1])}), "takes 1.5 bytes"),
    "a gap": (header({"a": facts(offsets=[8, 16])}), "begins at 8"),
    "an overlap": (header({"a": facts(), "b": facts(offsets=[4, 12])}), "begins at 4"),
}


@pytest.mark.parametrize(("content", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_nonsense_is_refused(content: bytes, said: str) -> None:
    """Each kind of damage has its sentence."""
    with pytest.raises(UnreadableModel) as refused:
        read_safetensors_header(BytesIO(content))
    assert said in refused.value.detail


def test_data_must_end_with_the_file() -> None:
    """A file that was cut off, or that hides something behind its data, is refused."""
    assert len(read_safetensors_header(BytesIO(SECOND), file_bytes=len(SECOND))) == 2
    for file_bytes in (len(SECOND) - 1, len(SECOND) + 1):
        with pytest.raises(UnreadableModel, match="the file at"):
            read_safetensors_header(BytesIO(SECOND), file_bytes=file_bytes)


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(
        st.text(min_size=1, max_size=20).filter(lambda name: name != "__metadata__"),
        st.tuples(st.sampled_from(sorted(SAFETENSORS_BITS)), st.lists(st.integers(0, 5), max_size=3)),
        max_size=5,
    )
)
def test_every_table_is_read_as_it_was_written(table: dict[str, tuple[str, list[int]]]) -> None:
    """Names, types and shapes come back, and again from the document they are kept as."""
    tensors = {
        name: CheckpointTensor(name=name, dtype=dtype, shape=(*shape, 4)) for name, (dtype, shape) in table.items()
    }
    written = safetensors(
        **{name: (tensor.dtype, list(tensor.shape), tensor.size_bytes) for name, tensor in tensors.items()}
    )
    read = read_safetensors_header(BytesIO(written), file_bytes=len(written))
    assert {tensor.name: tensor for tensor in read} == tensors
    checkpoint = checkpoint_of(CONFIG, read)
    again = read_checkpoint(write_checkpoint(checkpoint))
    assert (again.id, again.config, again.tensors) == (checkpoint.id, checkpoint.config, checkpoint.tensors)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(SECOND) - 1), st.integers(0, 255)), max_size=4))
def test_damage_is_a_problem_and_never_a_crash(flips: list[tuple[int, int]]) -> None:
    """Whatever a damaged header says, it is read or refused."""
    changed = bytearray(SECOND)
    for position, value in flips:
        changed[position] = value
    with suppress(UnreadableModel):
        assert all(tensor.size_bytes >= 0 for tensor in read_safetensors_header(BytesIO(bytes(changed))))
