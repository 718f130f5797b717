"""One GGUF file's header as it stands, whole model or part of a split one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from service.core.types import MetadataValue, Tensor
from service.core.units import pad
from service.gguf.byte_order import BIG, LITTLE, ByteOrder
from service.gguf.format import ALIGNMENT_KEY, DEFAULT_ALIGNMENT_BYTES, MAGIC, READABLE_VERSIONS, ValueType
from service.gguf.limits import DEFAULT_LIMITS, ReadLimits
from service.gguf.tensors import TensorTableReader
from service.gguf.values import MetadataReader
from service.gguf.window import HeaderWindow, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """Everything before the data of one file; `data_offset_bytes` is where the data begins."""

    version: int
    byte_order: Literal["little", "big"]
    metadata: Mapping[str, MetadataValue]
    tensors: Mapping[str, Tensor]
    data_offset_bytes: int
    data_bytes: int


def read_file_header(source: Source, *, file_bytes: int | None = None, limits: ReadLimits = DEFAULT_LIMITS) -> Header:
    """Header of one GGUF file (version 2 or 3, either byte order), read from bytes or a binary stream.

    file_bytes: size of the whole file where known; tensors must then lie inside it.
    Errors: TruncatedHeader where the source ends early, UnreadableModel for anything that makes no sense.
    Source: gguf_init_from_reader, ggml/src/gguf.cpp:459-830 (llama.cpp in llama-cpp-python 0.3.36).
    """
    window = HeaderWindow(source, limits)
    version, order = _read_preamble(window)
    window.reading = "the counts of tensors and metadata keys"
    tensor_count, key_count = window.unpack(order.counts)
    if tensor_count > limits.tensors or key_count > limits.metadata_entries:
        raise window.refusal(f"it claims {tensor_count:,} tensors and {key_count:,} metadata keys")
    metadata, types = MetadataReader(window, order, limits).read(key_count)
    alignment_bytes = _alignment_bytes(window, metadata, types)
    if alignment_bytes > limits.alignment_bytes:
        raise window.refusal(f"{ALIGNMENT_KEY} is {alignment_bytes:,} bytes, more than any machine needs")
    tensors, data_bytes = TensorTableReader(window, order, alignment_bytes).read(tensor_count)
    data_offset_bytes = pad(window.offset_bytes, alignment_bytes)
    if file_bytes is not None and data_offset_bytes + data_bytes > file_bytes and tensors:
        raise window.refusal(
            f"its tensors end at byte {data_offset_bytes + data_bytes:,} but the file has {file_bytes:,} bytes"
        )
    return Header(
        version=version,
        byte_order=order.name,
        metadata=metadata,
        tensors=tensors,
        data_offset_bytes=data_offset_bytes,
        data_bytes=data_bytes,
    )


def _read_preamble(window: HeaderWindow) -> tuple[int, ByteOrder]:
    window.require(len(MAGIC))
    magic = bytes(window.buffer[: len(MAGIC)])
    if magic != MAGIC:
        raise window.refusal(f"it begins with {magic!r} and not with {MAGIC!r}")
    window.position += len(MAGIC)
    window.reading = "the version"
    window.require(LITTLE.u32.size)
    raw = bytes(window.buffer[window.position : window.position + LITTLE.u32.size])
    window.position += len(raw)
    for order in (LITTLE, BIG):
        (version,) = order.u32.unpack(raw)
        if version in READABLE_VERSIONS:
            return version, order
    (version,) = LITTLE.u32.unpack(raw)
    raise window.refusal(f"it has GGUF version {version}; versions 2 and 3 are read, so convert the model again")


def _alignment_bytes(window: HeaderWindow, metadata: Mapping[str, MetadataValue], types: Mapping[str, int]) -> int:
    alignment_bytes = metadata.get(ALIGNMENT_KEY, DEFAULT_ALIGNMENT_BYTES)
    typed = types.get(ALIGNMENT_KEY, ValueType.U32) == ValueType.U32
    if not (typed and isinstance(alignment_bytes, int) and alignment_bytes.bit_count() == 1):
        raise window.refusal(f"{ALIGNMENT_KEY} is {alignment_bytes!r}, not an unsigned 32-bit power of two")
    return alignment_bytes
