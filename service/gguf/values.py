"""GGUF metadata: keys and typed values, long arrays counted and not kept."""

import struct
from collections.abc import Callable
from dataclasses import dataclass

from service.core.types import LongArray, MetadataScalar, MetadataValue
from service.gguf.byte_order import ByteOrder
from service.gguf.format import NUMBER_CODES, SHORTEST_TEXT_BYTES, ValueType
from service.gguf.limits import ReadLimits
from service.gguf.window import HeaderWindow


@dataclass(slots=True)
class MetadataReader:
    """Reads the key-value pairs of one header; `kept_*` count what was kept of it so far."""

    window: HeaderWindow
    order: ByteOrder
    limits: ReadLimits
    kept_elements: int = 0
    kept_text_bytes: int = 0

    def read(self, count: int) -> tuple[dict[str, MetadataValue], dict[str, int]]:
        """`count` pairs in file order, and the GGUF value type of each key.

        Errors: UnreadableModel for empty, repeated or undecodable keys, unknown types, nested arrays.
        Source: gguf_init_from_reader, ggml/src/gguf.cpp:553-630 (llama.cpp in llama-cpp-python 0.3.36).
        """
        metadata: dict[str, MetadataValue] = {}
        types: dict[str, int] = {}
        for index in range(count):
            key = self._key(index)
            if key in metadata:
                raise self.window.refusal(f"metadata key {key!r} appears twice")
            self.window.reading = f"metadata key {key!r}"
            (types[key],) = self.window.unpack(self.order.u32)
            metadata[key] = self._value(types[key])
        return metadata, types

    def _key(self, index: int) -> str:
        self.window.reading = f"the name of metadata key {index}"
        raw = self.window.text(self.order, self.limits.key_bytes)
        if not raw:
            raise self.window.refusal(f"the name of metadata key {index} is empty")
        return decode_name(self.window, raw)

    def _value(self, value_type: int) -> MetadataValue:
        if value_type == ValueType.ARRAY:
            return self._array()
        if value_type == ValueType.TEXT:
            return self._text()
        (value,) = self.window.unpack(self.order.array(self._code(value_type), 1))
        number: MetadataScalar = value
        return number

    def _array(self) -> MetadataValue:
        element_type, count = self.window.unpack(self.order.array_head)
        if element_type == ValueType.ARRAY:
            raise self.window.refusal(f"{self.window.reading} is an array of arrays, which GGUF readers refuse")
        if count > self.limits.array_elements:
            raise self.window.refusal(f"{self.window.reading} claims {count:,} array elements")
        if element_type == ValueType.TEXT:
            return self._texts(count)
        layout = self.order.array(self._code(element_type), count)
        if count > self.limits.kept_numbers:
            self.window.skip(layout.size)
            return LongArray(count=count)
        self._keep(count)
        return self.window.unpack(layout)

    def _texts(self, count: int) -> MetadataValue:
        if count > self.limits.kept_texts:
            skip_texts(self.window, self.order, count)
            return LongArray(count=count)
        self._keep(count)
        return tuple(self._text() for _ in range(count))

    def _text(self) -> str:
        # llama.cpp takes any bytes here; they are shown and never acted upon
        raw = self.window.text(self.order, self.limits.kept_text_bytes - self.kept_text_bytes)
        self.kept_text_bytes += len(raw)
        return raw.decode("utf-8", "replace")

    def _code(self, value_type: int) -> str:
        code = NUMBER_CODES.get(value_type)
        if code is None:
            raise self.window.refusal(f"{self.window.reading} has the unknown value type {value_type}")
        return code

    def _keep(self, count: int) -> None:
        self.kept_elements += count
        if self.kept_elements > self.limits.kept_elements:
            raise self.window.refusal(f"metadata arrays hold more than {self.limits.kept_elements:,} elements")


def decode_name(window: HeaderWindow, raw: bytes) -> str:
    """A key or tensor name, which must be UTF-8."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise window.refusal(f"{window.reading} is not UTF-8: {raw[:32]!r}") from None


def skip_texts(window: HeaderWindow, order: ByteOrder, count: int) -> None:
    """Walk over `count` strings without making them."""
    left = count
    while left:
        walked, overrun_bytes = _walk_buffered(window, order.u64.unpack_from, left)
        left -= walked
        if overrun_bytes:
            window.skip(overrun_bytes)
        elif left:
            window.require(SHORTEST_TEXT_BYTES)


def _walk_buffered(
    window: HeaderWindow, unpack_length: Callable[[bytes | bytearray | memoryview, int], tuple[int]], count: int
) -> tuple[int, int]:
    """Strings passed within the buffer, and how many bytes the last of them sticks out of it.

    The only loop that runs per token of a vocabulary: one struct call and one addition each.
    """
    buffer, position, walked = window.buffer, window.position, 0
    try:
        for walked in range(count):  # noqa: B007 (read after the loop)
            position += SHORTEST_TEXT_BYTES + unpack_length(buffer, position)[0]
        walked = count
    except (struct.error, OverflowError):
        pass  # the next length is not in the buffer; `walked` strings lie behind
    window.position = min(position, len(buffer))
    return walked, position - window.position
