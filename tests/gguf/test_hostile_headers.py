"""Headers that lie are refused with a clear problem, soon and in little memory."""

import tracemalloc
from collections.abc import Iterable
from contextlib import suppress
from struct import pack

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from service.core.problems import UnreadableModel
from service.core.types import LongArray
from service.core.units import MIB
from service.gguf.limits import DEFAULT_LIMITS
from service.gguf.problems import TruncatedHeader
from service.gguf.reader import read_header
from tests.gguf.gguf_bytes import ARCHITECTURE, ARRAY, BOOL, F32, I32, LITTLE, TEXT, U8, U32, U64, header

HUGE = 2**63
BAD_UTF8 = b"a\xff\xfe"


def array_head(key: str, element_type: int, count: int) -> bytes:
    """An array that claims `count` elements and has none."""
    return LITTLE.text(key) + pack("<IIQ", ARRAY, element_type, count)


HOSTILE = {
    "nothing": (b"", "at least 4 more bytes"),
    "another format": (b"PK\x03\x04" + bytes(64), "begins with"),
    "version 1": (LITTLE.preamble(0, 0, version=1), "version 1"),
    "version 4": (LITTLE.preamble(0, 0, version=4), "version 4"),
    "2^63 tensors": (LITTLE.preamble(HUGE, 1), "9,223,372,036,854,775,808 tensors"),
    "2^63 keys": (LITTLE.preamble(1, HUGE), "9,223,372,036,854,775,808 metadata keys"),
    "2^64-1 of both": (LITTLE.preamble(2**64 - 1, 2**64 - 1), "claims"),
    "key of 2^63 bytes": (LITTLE.preamble(0, 1) + pack("<Q", HUGE), "has 9,223,372,036,854,775,808 bytes"),
    "empty key": (header(LITTLE.pair("", U32, 1)), "is empty"),
    "key twice": (header(LITTLE.pair("a", U32, 1), LITTLE.pair("a", U32, 2)), "'a' appears twice"),
    "key that is not UTF-8": (header(LITTLE.pair(BAD_UTF8, U32, 1)), "not UTF-8"),
    "unknown value type": (header(LITTLE.text("a") + pack("<II", 13, 0)), "unknown value type 13"),
    "text of 2^63 bytes": (header(LITTLE.text("a") + pack("<IQ", TEXT, HUGE)), "more than the 4,194,299 allowed here"),
    "array of arrays": (header(array_head("a", ARRAY, 1)), "array of arrays"),
    "array of 2^63 bytes": (header(array_head("a", U8, HUGE)), "claims 9,223,372,036,854,775,808 array elements"),
    "array of 2^64-1 texts": (header(array_head("a", TEXT, 2**64 - 1)), "array elements"),
    "array of an unknown type": (header(array_head("a", 99, 3)), "unknown value type 99"),
    "array that ends early": (header(array_head("a", U64, 2_000_000)), "more bytes are needed"),
    "thousands of keys": (header(*(array_head(f"a{n}", TEXT, 0) for n in range(5000))), "5,001 metadata keys"),
    "text in an array of 2^64-1 bytes": (
        header(array_head("a", TEXT, 1000) + pack("<Q", 2**64 - 1)),
        "runs past 67,108,864 bytes",
    ),
    "alignment zero": (header(LITTLE.pair("general.alignment", U32, 0)), "power of two"),
    "alignment 48": (header(LITTLE.pair("general.alignment", U32, 48)), "power of two"),
    "alignment of 2 GiB": (header(LITTLE.pair("general.alignment", U32, 2**31)), "more than any machine needs"),
    "alignment of another type": (header(LITTLE.pair("general.alignment", I32, 32)), "unsigned 32-bit"),
    "alignment as text": (header(LITTLE.pair("general.alignment", TEXT, "32")), "unsigned 32-bit"),
    "alignment as boolean": (header(LITTLE.pair("general.alignment", BOOL, 1)), "unsigned 32-bit"),
    "tensor name too long": (header(tensors=[LITTLE.tensor("a" * 64, [1])]), "64 bytes, more than 63"),
    "tensor name that is not UTF-8": (header(tensors=[LITTLE.tensor(BAD_UTF8, [1])]), "not UTF-8"),
    "tensor twice": (
        header(tensors=[LITTLE.tensor("a", [1]), LITTLE.tensor("a", [1], offset=32)]),
        "'a' appears twice",
    ),
    "five dimensions": (header(tensors=[LITTLE.tensor("a", [1] * 5)]), "5 dimensions"),
    "2^32-1 dimensions": (header(tensors=[LITTLE.text("a") + pack("<I", 2**32 - 1)]), "4,294,967,295 dimensions"),
    "dimension of 2^63": (header(tensors=[LITTLE.tensor("a", [HUGE])]), "absurd shape"),
    "2^64 elements": (header(tensors=[LITTLE.tensor("a", [2**32, 2**32])]), "absurd shape"),
    "more bytes than 2^53": (header(tensors=[LITTLE.tensor("a", [2**52])]), "ends at byte"),
    "no elements": (header(tensors=[LITTLE.tensor("a", [0, 4])]), "absurd shape"),
    "removed type": (header(tensors=[LITTLE.tensor("a", [32], type_id=4)]), "Q4_2, which ggml no longer reads"),
    "type of the future": (header(tensors=[LITTLE.tensor("a", [32], type_id=1000)]), "type 1000"),
    "row of half a block": (header(tensors=[LITTLE.tensor("a", [48], type_id=8)]), "no multiple of the 32"),
    "gap in the data": (header(tensors=[LITTLE.tensor("a", [1], offset=64)]), "said to begin at 64"),
    "tensors on top of each other": (
        header(tensors=[LITTLE.tensor("a", [1]), LITTLE.tensor("b", [1], offset=0)]),
        "the tensors before it end at 32",
    ),
    "no architecture": (LITTLE.preamble(0, 0), "no general.architecture"),
    "architecture that is a number": (
        LITTLE.preamble(0, 1) + LITTLE.pair("general.architecture", U32, 1),
        "no general.architecture",
    ),
}


@pytest.mark.parametrize(("content", "message"), HOSTILE.values(), ids=HOSTILE.keys())
def test_nonsense_is_refused(content: bytes, message: str) -> None:
    """Each kind of damage has its sentence; nothing but the problem is raised."""
    with pytest.raises(UnreadableModel) as problem:
        read_header(content)
    assert message in problem.value.detail


class Repeating:
    """An endless stream: a start, then the same chunk for ever."""

    def __init__(self, start: bytes, chunk: bytes) -> None:
        self.pending = start
        self.chunk = chunk
        self.served_bytes = 0

    def read(self, size: int, /) -> bytes:
        """Never ends, never gives more than asked for."""
        while len(self.pending) < size:
            self.pending += self.chunk * (size // len(self.chunk) + 1)
        served, self.pending = self.pending[:size], self.pending[size:]
        self.served_bytes += len(served)
        return served


def keys_without_end() -> bytes:
    """The start of a header whose keys are arrays of numbers, as many as may be kept."""
    return LITTLE.preamble(0, 4096) + b"".join(LITTLE.array(f"a{n}", U32, range(4096)) for n in range(80))


ENDLESS = {
    "kept arrays": (keys_without_end(), bytes(4096), "more than 262,144 elements"),
    "texts of a mebibyte": (
        LITTLE.preamble(0, 4000) + array_head("a", TEXT, 250),
        pack("<Q", MIB - 8) + bytes(MIB - 8),
        "more than the",
    ),
    "numbers": (LITTLE.preamble(0, 4000) + array_head("a", U64, 2_097_152), bytes(4096), "empty"),
}


@pytest.mark.parametrize(("start", "chunk", "message"), ENDLESS.values(), ids=ENDLESS.keys())
def test_an_endless_header_is_given_up_in_bounded_memory(start: bytes, chunk: bytes, message: str) -> None:
    """No stream makes the reader take more than its limit, or hold more than 16 MiB."""
    stream = Repeating(start, chunk)
    tracemalloc.start()
    try:
        with pytest.raises(UnreadableModel, match=message):
            read_header(stream)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert stream.served_bytes <= DEFAULT_LIMITS.header_bytes + 2 * MIB
    assert peak_bytes <= 16 * MIB


def test_millions_of_empty_texts_end_at_the_limit() -> None:
    """The cheapest thing to send and the dearest to walk stops at the limits of array and header."""
    stream = Repeating(LITTLE.preamble(0, 4000) + array_head("a", TEXT, 2_097_152), bytes(4096))
    with pytest.raises(UnreadableModel, match="is empty"):
        read_header(stream)
    assert stream.served_bytes <= 8 * 2_097_152 + 2 * MIB


def vocabulary_header() -> bytes:
    """A header as long as real ones get: 150,000 tokens, their scores and types, 280,000 merges."""
    tokens = [f"tok{n}" for n in range(150_000)]
    return header(
        LITTLE.array("tokenizer.ggml.tokens", TEXT, tokens),
        LITTLE.array("tokenizer.ggml.scores", F32, [0.0] * len(tokens)),
        LITTLE.array("tokenizer.ggml.token_type", I32, [1] * len(tokens)),
        LITTLE.array("tokenizer.ggml.merges", TEXT, [f"a{n} b" for n in range(280_000)]),
        tensors=[LITTLE.tensor("a", [8])],
    )


class Chunks:
    """A stream over bytes that are there already."""

    def __init__(self, content: bytes) -> None:
        self.content = memoryview(content)
        self.position = 0

    def read(self, size: int, /) -> bytes:
        """The next bytes."""
        chunk = self.content[self.position : self.position + size]
        self.position += len(chunk)
        return bytes(chunk)


def test_a_long_vocabulary_is_walked_in_two_mebibytes() -> None:
    """Tokens and merges are passed over, never held."""
    stream = Chunks(vocabulary_header())
    tracemalloc.start()
    try:
        model = read_header(stream)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert model.metadata["tokenizer.ggml.merges"] == LongArray(count=280_000)
    assert peak_bytes <= 2 * MIB


SMALL = header(
    LITTLE.pair("general.name", TEXT, "small"),
    LITTLE.array("texts", TEXT, ["a", "bc", ""] * 100),
    LITTLE.array("numbers", U64, range(3)),
    tensors=[LITTLE.tensor("a", [4, 2]), LITTLE.tensor("b", [1], offset=32)],
)


def test_a_truncated_header_says_how_much_is_missing() -> None:
    """Cut anywhere, the number of missing bytes is named, and is never more than there are."""
    for sent_bytes in range(len(SMALL)):
        with pytest.raises(TruncatedHeader) as problem:
            read_header(SMALL[:sent_bytes])
        assert 1 <= problem.value.missing_bytes <= len(SMALL) - sent_bytes
        assert f"at least {problem.value.missing_bytes:,} more bytes are needed" in problem.value.detail


def damaged(content: bytes, flips: Iterable[tuple[int, int]]) -> bytes:
    """`content` with bytes replaced."""
    changed = bytearray(content)
    for position, value in flips:
        changed[position % len(content)] = value
    return bytes(changed)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(SMALL) - 1), st.integers(0, 255)), max_size=6), st.integers(0, 64))
@example([(len(ARCHITECTURE) - 1, 0)], 0)
def test_damage_is_a_problem_and_never_a_crash(flips: list[tuple[int, int]], cut_bytes: int) -> None:
    """Whatever a damaged header says, it is read or refused."""
    content = damaged(SMALL, flips)
    with suppress(UnreadableModel):
        assert read_header(content[: len(content) - cut_bytes]).architecture


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.sampled_from([2, 3]), st.booleans())
def test_noise_behind_the_magic_is_refused(noise: bytes, version: int, big: bool) -> None:
    """Random bytes make no model."""
    with pytest.raises(UnreadableModel):
        read_header(b"GGUF" + version.to_bytes(4, "big" if big else "little") + noise)
