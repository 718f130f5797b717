"""The two byte orders of GGUF as ready-made struct layouts."""

from dataclasses import dataclass
from struct import Struct
from typing import Literal

from service.gguf.limits import MAX_TENSOR_DIMENSIONS, MAX_TENSOR_NAME_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteOrder:
    """Layouts of one byte order.

    `tensor_heads[n]` reads a name of n bytes and the number of dimensions of a tensor, `tensor_tails[d]`
    its d dimensions, type and offset.
    """

    name: Literal["little", "big"]
    code: Literal["<", ">"]
    u32: Struct
    u64: Struct
    counts: Struct
    array_head: Struct
    tensor_heads: tuple[Struct, ...]
    tensor_tails: tuple[Struct, ...]

    def array(self, value_code: str, count: int) -> Struct:
        """Layout of `count` values of one struct code."""
        return Struct(f"{self.code}{count}{value_code}")


def _byte_order(name: Literal["little", "big"], code: Literal["<", ">"]) -> ByteOrder:
    return ByteOrder(
        name=name,
        code=code,
        u32=Struct(f"{code}I"),
        u64=Struct(f"{code}Q"),
        counts=Struct(f"{code}QQ"),
        array_head=Struct(f"{code}IQ"),
        tensor_heads=tuple(Struct(f"{code}{name_bytes}sI") for name_bytes in range(MAX_TENSOR_NAME_BYTES + 1)),
        tensor_tails=tuple(Struct(f"{code}{dimensions}QIQ") for dimensions in range(MAX_TENSOR_DIMENSIONS + 1)),
    )


LITTLE = _byte_order("little", "<")
BIG = _byte_order("big", ">")
