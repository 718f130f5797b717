"""Headers of safetensors files: bytes of any origin → tensor table, in bounded memory."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final, Protocol

import orjson

from service.core.checkpoints import SAFETENSORS_BITS, CheckpointTensor
from service.core.problems import UnreadableModel
from service.core.units import MIB

MAX_HEADER_BYTES: Final = 16 * MIB
MAX_TENSORS: Final = 262_144
_MAX_DIMENSIONS: Final = 16
_MAX_DATA_BYTES: Final = 2**53
_METADATA: Final = "__metadata__"


class Readable(Protocol):
    """Anything with the `read` of a binary file; short reads are fine, b"" is the end."""

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes, b"" only at the end."""


def read_safetensors_header(source: Readable, *, file_bytes: int | None = None) -> Sequence[CheckpointTensor]:
    """Tensors of one safetensors file, from its first bytes, in the order of their data.

    file_bytes: size of the whole file where known; its data must then end with it.
    Raises UnreadableModel for a header that is truncated, too long or makes no sense.
    Source: the format in safetensors' README, and Metadata::validate, src/tensor.rs (safetensors 0.6).
    """
    header_bytes = int.from_bytes(_exactly(source, 8), "little")
    if not 2 <= header_bytes <= MAX_HEADER_BYTES:
        raise _refusal(f"it claims {header_bytes:,} bytes")
    try:
        table = orjson.loads(_exactly(source, header_bytes))
    except orjson.JSONDecodeError as error:
        raise _refusal(f"it is no JSON ({error.msg})") from None
    if not isinstance(table, dict) or len(table) > MAX_TENSORS:
        raise _refusal("it is no table of tensors")
    rows = sorted(
        (_row(name, facts) for name, facts in table.items() if name != _METADATA), key=lambda row: (row[0], row[1])
    )
    end_bytes = _refuse_holes(rows)
    if file_bytes is not None and 8 + header_bytes + end_bytes != file_bytes:
        raise _refusal(f"its data ends at byte {8 + header_bytes + end_bytes:,} and the file at {file_bytes:,}")
    return [tensor for _, _, tensor in rows]


def _exactly(source: Readable, count_bytes: int) -> bytes:
    content = bytearray()
    while len(content) < count_bytes:
        chunk = source.read(count_bytes - len(content))
        if not chunk:
            raise _refusal(f"it ends after {len(content):,} of {count_bytes:,} bytes")
        content += chunk
    return bytes(content)


def _row(name: str, facts: Any) -> tuple[int, int, CheckpointTensor]:
    """First and end byte of a tensor's data, and the tensor."""
    if not isinstance(facts, Mapping) or set(facts) != {"dtype", "shape", "data_offsets"}:
        raise _refusal(f"tensor {name[:80]!r} is not described by dtype, shape and data_offsets")
    dtype, shape, offsets = facts["dtype"], facts["shape"], facts["data_offsets"]
    if not isinstance(dtype, str) or dtype not in SAFETENSORS_BITS:
        raise _refusal(f"tensor {name[:80]!r} has the unknown type {str(dtype)[:40]!r}")
    if not _are_counts(shape) or len(shape) > _MAX_DIMENSIONS or not _are_counts(offsets) or len(offsets) != 2:
        raise _refusal(f"tensor {name[:80]!r} has no sensible shape and place")
    bits = prod(shape) * SAFETENSORS_BITS[dtype]
    if bits % 8 or bits // 8 != offsets[1] - offsets[0] or offsets[1] > _MAX_DATA_BYTES:
        raise _refusal(f"tensor {name[:80]!r} takes {bits / 8:,.1f} bytes, not those it is given")
    return offsets[0], offsets[1], CheckpointTensor(name=name, dtype=dtype, shape=tuple(shape))


def _are_counts(values: object) -> bool:
    return isinstance(values, list) and all(
        isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 for value in values
    )


def _refuse_holes(rows: Sequence[tuple[int, int, CheckpointTensor]]) -> int:
    """The end of the data; raises where tensors overlap or leave a gap."""
    end = 0
    for first, next_end, tensor in rows:
        if first != end:
            raise _refusal(f"tensor {tensor.name[:80]!r} begins at {first:,} where the one before it ends at {end:,}")
        end = next_end
    return end


def _refusal(reason: str) -> UnreadableModel:
    return UnreadableModel(f"Not a readable safetensors header: {reason}.")
