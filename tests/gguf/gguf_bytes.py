"""GGUF headers made by hand, sound or damaged, with nothing of the reader in them."""

from collections.abc import Sequence
from dataclasses import dataclass
from struct import pack

U8, I8, U16, I16, U32, I32, F32, BOOL, TEXT, ARRAY, U64, I64, F64 = range(13)
CODES = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "?", U64: "Q", I64: "q", F64: "d"}
# one f32 element per row: 4 bytes
F32_TENSOR = 0


@dataclass(frozen=True, slots=True)
class Encoder:
    """Writes the pieces of a header in one byte order."""

    order: str = "<"

    def preamble(self, tensors: int, keys: int, version: int = 3) -> bytes:
        """Magic, version and counts."""
        return b"GGUF" + pack(f"{self.order}IQQ", version, tensors, keys)

    def text(self, text: str | bytes) -> bytes:
        """A string with its length."""
        raw = text if isinstance(text, bytes) else text.encode()
        return pack(f"{self.order}Q", len(raw)) + raw

    def value(self, value_type: int, value: float | str | bytes) -> bytes:
        """A value without its type."""
        if isinstance(value, str | bytes):
            return self.text(value)
        return pack(f"{self.order}{CODES[value_type]}", value)

    def pair(self, key: str | bytes, value_type: int, value: float | str | bytes) -> bytes:
        """A key with a scalar or text."""
        return self.text(key) + pack(f"{self.order}I", value_type) + self.value(value_type, value)

    def array(self, key: str, element_type: int, values: Sequence[float | str | bytes]) -> bytes:
        """A key with an array."""
        head = pack(f"{self.order}IIQ", ARRAY, element_type, len(values))
        return self.text(key) + head + b"".join(self.value(element_type, value) for value in values)

    def tensor(self, name: str | bytes, shape: Sequence[int], type_id: int = F32_TENSOR, offset: int = 0) -> bytes:
        """A row of the tensor table."""
        return self.text(name) + pack(f"{self.order}I{len(shape)}QIQ", len(shape), *shape, type_id, offset)


LITTLE = Encoder("<")
BIG = Encoder(">")
ARCHITECTURE = LITTLE.pair("general.architecture", TEXT, "llama")


def header(*pairs: bytes, tensors: Sequence[bytes] = (), version: int = 3) -> bytes:
    """A little-endian header of a llama model with these further keys and tensors."""
    return b"".join([LITTLE.preamble(len(tensors), 1 + len(pairs), version), ARCHITECTURE, *pairs, *tensors])
