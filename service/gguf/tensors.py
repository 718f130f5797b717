"""GGUF tensor tables."""

from dataclasses import dataclass
from math import prod
from typing import NoReturn

from service.core.tensor_types import REMOVED_TENSOR_TYPES, TENSOR_TYPES
from service.core.types import Tensor, TensorType
from service.core.units import pad
from service.gguf.byte_order import ByteOrder
from service.gguf.limits import MAX_TENSOR_DIMENSIONS, MAX_TENSOR_NAME_BYTES
from service.gguf.values import decode_name
from service.gguf.window import HeaderWindow

# ggml counts elements in 63 bits; JSON keeps integers exact up to 2^53, and 9 PB are more than any file
_MAX_ELEMENTS = 2**63 - 1
_MAX_DATA_BYTES = 2**53


@dataclass(frozen=True, slots=True)
class TensorTableReader:
    """Reads the tensor table of one header, whose data is packed at multiples of `alignment_bytes`."""

    window: HeaderWindow
    order: ByteOrder
    alignment_bytes: int

    def read(self, count: int) -> tuple[dict[str, Tensor], int]:
        """`count` tensors by name in file order, and the bytes of data they span.

        Errors: UnreadableModel for repeated or undecodable names, more than four or negative dimensions,
        unknown types, rows that are no whole number of blocks, offsets that leave gaps or overlap.
        Source: gguf_init_from_reader, ggml/src/gguf.cpp:654-810 (llama.cpp in llama-cpp-python 0.3.36).
        """
        self.window.reading = "the tensor table"
        tensors: dict[str, Tensor] = {}
        next_offset_bytes = end_bytes = 0
        for _ in range(count):
            tensor, offset_bytes = self._tensor()
            if tensor.name in tensors:
                raise self.window.refusal(f"tensor {tensor.name!r} appears twice")
            if offset_bytes != next_offset_bytes:
                raise self.window.refusal(
                    f"the data of tensor {tensor.name!r} is said to begin at {offset_bytes:,} "
                    f"but the tensors before it end at {next_offset_bytes:,}"
                )
            tensors[tensor.name] = tensor
            end_bytes = offset_bytes + tensor.size_bytes
            if end_bytes > _MAX_DATA_BYTES:
                raise self.window.refusal(f"tensor {tensor.name!r} ends at byte {end_bytes:,} of the data")
            next_offset_bytes = pad(end_bytes, self.alignment_bytes)
        return tensors, end_bytes

    def _tensor(self) -> tuple[Tensor, int]:
        window, order = self.window, self.order
        (name_bytes,) = window.unpack(order.u64)
        if name_bytes > MAX_TENSOR_NAME_BYTES:
            raise window.refusal(f"a tensor's name has {name_bytes:,} bytes, more than {MAX_TENSOR_NAME_BYTES}")
        raw_name, dimensions = window.unpack(order.tensor_heads[name_bytes])
        name = decode_name(window, raw_name)
        if dimensions > MAX_TENSOR_DIMENSIONS:
            raise window.refusal(f"tensor {name!r} has {dimensions:,} dimensions")
        *shape, type_id, offset_bytes = window.unpack(order.tensor_tails[dimensions])
        tensor_type = TENSOR_TYPES.get(type_id) or self._refuse_type(name, type_id)
        size_bytes = self._size_bytes(name, tensor_type, shape)
        return Tensor(name=name, type=tensor_type, shape=tuple(shape) or (1,), size_bytes=size_bytes), offset_bytes

    def _refuse_type(self, name: str, type_id: int) -> NoReturn:
        removed = REMOVED_TENSOR_TYPES.get(type_id)
        if removed is not None:
            raise self.window.refusal(
                f"tensor {name!r} has type {removed}, which ggml no longer reads; convert the model again"
            )
        raise self.window.refusal(f"tensor {name!r} has type {type_id}, which ggml 0.25.3 does not know")

    def _size_bytes(self, name: str, tensor_type: TensorType, shape: list[int]) -> int:
        elements = prod(shape)
        if not 0 < elements <= _MAX_ELEMENTS:
            raise self.window.refusal(f"tensor {name!r} has the absurd shape {shape}")
        row_elements = shape[0] if shape else 1
        if row_elements % tensor_type.block_elements:
            raise self.window.refusal(
                f"tensor {name!r} has rows of {row_elements:,} elements, "
                f"no multiple of the {tensor_type.block_elements} in a block of {tensor_type.name}"
            )
        return elements // tensor_type.block_elements * tensor_type.block_bytes
