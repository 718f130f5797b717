"""What is written back reads as the same model."""

from typing import TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from service.core.types import LongArray, MetadataValue, Model, Tensor
from service.gguf.identity import model_id
from service.gguf.reader import read_header
from service.gguf.writer import write_header
from tests.gguf.gguf_bytes import F32, LITTLE, TEXT, U8, U32, header
from tests.models import load_model

TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)
INTEGERS = st.one_of(st.integers(0, 2**64 - 1), st.integers(-(2**63), 2**63 - 1))
FLOATS = st.floats(allow_nan=False)


Element = TypeVar("Element")


def tuples(elements: st.SearchStrategy[Element]) -> st.SearchStrategy[tuple[Element, ...]]:
    """Arrays as the reader keeps them: of one type."""
    return st.lists(elements, max_size=20).map(tuple)


VALUES: st.SearchStrategy[MetadataValue] = st.one_of(
    TEXTS,
    INTEGERS,
    FLOATS,
    st.booleans(),
    tuples(TEXTS),
    tuples(st.integers(0, 2**64 - 1)),
    tuples(st.integers(-(2**63), 2**63 - 1)),
    tuples(FLOATS),
    tuples(st.booleans()),
    st.integers(257, 10_000).map(lambda count: LongArray(count=count)),
)
NAMES = st.text("abc.", min_size=1, max_size=8)


def model_of(metadata: dict[str, MetadataValue], tensors: tuple[Tensor, ...]) -> Model:
    """A model of any facts, as the reader would build it."""
    return Model(
        id=model_id(metadata, tensors),
        name=None,
        quant=None,
        architecture="llama",
        metadata=metadata,
        tensors=tensors,
        tensor_by_name={tensor.name: tensor for tensor in tensors},
    )


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(NAMES.map("x.".__add__), VALUES, max_size=8), st.sampled_from([32, 64, 4096]))
def test_any_metadata_survives(values: dict[str, MetadataValue], alignment_bytes: int) -> None:
    """Every value comes back equal and of its type, long arrays by their length."""
    metadata = {"general.architecture": "llama", "general.alignment": alignment_bytes, **values}
    again = read_header(write_header(model_of(metadata, ())))
    assert repr(dict(again.metadata)) == repr(metadata)
    assert again.id == model_id(metadata, ())


def test_a_catalogue_model_survives() -> None:
    """All tensors of a real mix, and the id."""
    model = load_model("gemma-3n-e4b:Q4_K_M")
    again = read_header(write_header(model))
    assert (again.id, again.tensors, again.metadata) == (model.id, model.tensors, model.metadata)


def test_a_vocabulary_is_written_without_its_tokens() -> None:
    """A long header becomes a short one, of the same model."""
    content = header(
        LITTLE.array("tokens", TEXT, [f"token {n}" for n in range(5000)]),
        LITTLE.array("scores", F32, [0.5] * 5000),
        LITTLE.array("few", TEXT, ["long text"] * 300),
        LITTLE.array("bytes", U8, bytes(10)),
        LITTLE.pair("n", U32, 2**32 - 1),
        tensors=[LITTLE.tensor("a", [8])],
    )
    model = read_header(content)
    written = write_header(model)
    assert read_header(written).id == model.id
    assert len(written) < len(content) / 5
    assert len(written) % 32 == 0
