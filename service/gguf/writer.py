"""A model written back as a plain GGUF header: small, whole and the same model when read again."""

from collections.abc import Iterable
from itertools import chain
from struct import Struct, pack
from typing import TypeAlias

from service.core.types import LongArray, MetadataScalar, MetadataValue, Model, Tensor
from service.core.units import pad
from service.gguf.format import (
    ALIGNMENT_KEY,
    DEFAULT_ALIGNMENT_BYTES,
    MAGIC,
    NUMBER_CODES,
    SHORTEST_TEXT_BYTES,
    WRITTEN_VERSION,
    ValueType,
)
from service.gguf.limits import DEFAULT_LIMITS

Number: TypeAlias = int | float | bool


def write_header(model: Model) -> bytes:
    """GGUF version 3, little-endian, of metadata and tensor table; `read_header` of it gives the same model and id.

    Numbers are written as wide as they need; of a long array only its length was kept, so it is filled with
    zeros (which compress to nothing); split models become one.
    """
    alignment_bytes = model.metadata.get(ALIGNMENT_KEY, DEFAULT_ALIGNMENT_BYTES)
    if not isinstance(alignment_bytes, int):
        raise TypeError(f"{ALIGNMENT_KEY} of a model is an integer, not {alignment_bytes!r}")
    parts = [
        MAGIC,
        pack("<IQQ", WRITTEN_VERSION, len(model.tensors), len(model.metadata)),
        *(_text(key) + _value(value) for key, value in model.metadata.items()),
        *_tensor_table(model.tensors, alignment_bytes),
    ]
    header = b"".join(parts)
    return header.ljust(pad(len(header), alignment_bytes), b"\0")


def _text(text: str) -> bytes:
    raw = text.encode()
    return pack("<Q", len(raw)) + raw


def _value(value: MetadataValue) -> bytes:
    if isinstance(value, LongArray):
        return _long_array(value.count)
    if isinstance(value, tuple):
        return pack("<I", ValueType.ARRAY) + _array(value)
    if isinstance(value, str):
        return pack("<I", ValueType.TEXT) + _text(value)
    value_type = _number_type((value,))
    return pack(f"<I{NUMBER_CODES[value_type]}", value_type, value)


def _long_array(count: int) -> bytes:
    """Zeros, or empty texts where so few numbers would be kept."""
    if count > DEFAULT_LIMITS.kept_numbers:
        return pack("<IIQ", ValueType.ARRAY, ValueType.U8, count) + bytes(count)
    return pack("<IIQ", ValueType.ARRAY, ValueType.TEXT, count) + bytes(SHORTEST_TEXT_BYTES * count)


def _array(values: tuple[MetadataScalar, ...]) -> bytes:
    texts = [value for value in values if isinstance(value, str)]
    if texts:
        return pack("<IQ", ValueType.TEXT, len(texts)) + b"".join(map(_text, texts))
    numbers = tuple(value for value in values if not isinstance(value, str))
    value_type = _number_type(numbers)
    return pack("<IQ", value_type, len(numbers)) + Struct(f"<{len(numbers)}{NUMBER_CODES[value_type]}").pack(*numbers)


def _number_type(numbers: tuple[Number, ...]) -> ValueType:
    """The first GGUF type that holds all of `numbers` without loss."""
    if any(isinstance(number, float) for number in numbers):
        return ValueType.F64
    if numbers and all(isinstance(number, bool) for number in numbers):
        return ValueType.BOOL
    least, most = min(numbers, default=0), max(numbers, default=0)
    if least < 0:
        return ValueType.I64
    return ValueType.U32 if most < 2**32 else ValueType.U64


def _tensor_table(tensors: Iterable[Tensor], alignment_bytes: int) -> Iterable[bytes]:
    offset_bytes = 0
    for tensor in tensors:
        row = pack(
            f"<I{len(tensor.shape)}QIQ", *chain((len(tensor.shape),), tensor.shape, (tensor.type.id, offset_bytes))
        )
        yield _text(tensor.name) + row
        offset_bytes = pad(offset_bytes + tensor.size_bytes, alignment_bytes)
