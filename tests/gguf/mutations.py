"""Damaged headers, made quickly and the same on every run."""

import lzma
import random
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from struct import pack
from typing import Final

from tests.gguf.gguf_bytes import BIG, F32, F64, I8, I32, LITTLE, TEXT, U8, U32, U64, Encoder, header

GOLDEN = Path(__file__).parents[1] / "golden" / "arch_headers"
LONGEST_SEED_BYTES: Final = 24_000

# lengths, counts and types that readers trip over
_NUMBERS: Final = (
    0, 1, 2, 3, 7, 8, 9, 10, 12, 13, 31, 32, 63, 64, 65, 127, 255, 256, 4095, 4096, 4097, 65_535, 65_536, 2**20,
    2**21, 2**24, 2**26, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 8,
    2**64 - 1,
)  # fmt: skip
_TOKENS: Final = (
    b"GGUF", b"general.architecture", b"general.alignment", b"split.count", b"split.no", b"\xff\xfe", b"\0" * 9,
)  # fmt: skip


def _varied(encoder: Encoder, version: int) -> bytes:
    """A header with every type of value."""
    pairs = [
        encoder.pair("general.architecture", TEXT, "llama"),
        encoder.pair("general.alignment", U32, 64),
        encoder.pair("f", F64, 0.5),
        encoder.pair("n", I8, -3),
        encoder.array("texts", TEXT, ["a", "bc", ""] * 120),
        encoder.array("few", TEXT, ["x", "yz"]),
        encoder.array("numbers", U64, range(20)),
        encoder.array("scores", F32, [0.25] * 30),
        encoder.array("bytes", U8, range(200)),
        encoder.array("types", I32, [1] * 5000),
    ]
    tensors = [encoder.tensor(f"blk.{n}.ffn_up.weight", [256, 2], 12, offset=n * 320) for n in range(12)]
    return encoder.preamble(len(tensors), len(pairs), version) + b"".join([*pairs, *tensors])


@cache
def seeds() -> Sequence[bytes]:
    """Sound headers: made by hand in both byte orders and versions, and those of small models."""
    made = [_varied(encoder, version) for encoder in (LITTLE, BIG) for version in (2, 3)]
    split = header(
        LITTLE.pair("split.no", U32, 0), LITTLE.pair("split.count", U32, 1), tensors=[LITTLE.tensor("a", [8])]
    )
    golden = (lzma.decompress(path.read_bytes()) for path in sorted(GOLDEN.glob("*.gguf.xz"))[::6])
    return [*made, split, *(content for content in golden if len(content) <= LONGEST_SEED_BYTES)]


def mutations(count: int, seed: int) -> Iterator[bytes]:
    """So many damaged headers: each a sound one after one to six mutations, many of them near its beginning."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    sound = seeds()
    for _ in range(count):
        content = bytearray(chance.choice(sound))
        for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 6))):
            if content:
                chance.choice(_MUTATIONS)(content, chance, sound)
        yield bytes(content)


Mutation = Callable[[bytearray, random.Random, Sequence[bytes]], None]


def _position(content: bytearray, chance: random.Random) -> int:
    """Anywhere, half of the time among the first bytes."""
    return chance.randrange(min(len(content), 64) if chance.random() < 0.5 else len(content))


def _flip(content: bytearray, chance: random.Random, _: Sequence[bytes]) -> None:
    content[_position(content, chance)] ^= 1 << chance.randrange(8)


def _replace(content: bytearray, chance: random.Random, _: Sequence[bytes]) -> None:
    content[_position(content, chance)] = chance.choice((0, 1, 127, 128, 255, chance.randrange(256)))


def _number(content: bytearray, chance: random.Random, _: Sequence[bytes]) -> None:
    """Write a number over whatever is there, in either byte order, as 32 or 64 bits."""
    code, mask = chance.choice((("<Q", 2**64 - 1), (">Q", 2**64 - 1), ("<I", 2**32 - 1), (">I", 2**32 - 1)))
    raw = pack(code, chance.choice(_NUMBERS) & mask)
    start = _position(content, chance)
    content[start : start + len(raw)] = raw


def _cut(content: bytearray, chance: random.Random, _: Sequence[bytes]) -> None:
    del content[_position(content, chance) :]


def _remove(content: bytearray, chance: random.Random, _: Sequence[bytes]) -> None:
    start = _position(content, chance)
    del content[start : start + chance.choice((1, 4, 8, 100))]


def _repeat(content: bytearray, chance: random.Random, _: Sequence[bytes]) -> None:
    start = _position(content, chance)
    piece = content[start : start + chance.choice((1, 8, 24, 200))]
    content[start:start] = piece * chance.choice((1, 2, 50))


def _insert(content: bytearray, chance: random.Random, _: Sequence[bytes]) -> None:
    start = _position(content, chance)
    content[start:start] = chance.choice((*_TOKENS, chance.randbytes(chance.randrange(1, 40))))


def _splice(content: bytearray, chance: random.Random, sound: Sequence[bytes]) -> None:
    """Go on as another header does."""
    other = chance.choice(sound)
    content[_position(content, chance) :] = other[chance.randrange(len(other)) :]


def _swap(content: bytearray, chance: random.Random, _: Sequence[bytes]) -> None:
    first, second, length = _position(content, chance), _position(content, chance), chance.choice((1, 4, 8, 32))
    piece = bytes(content[first : first + length])
    content[first : first + length] = content[second : second + length]
    content[second : second + length] = piece


_MUTATIONS: Final[tuple[Mutation, ...]] = (
    _flip, _flip, _replace, _replace, _number, _number, _number, _cut, _remove, _repeat, _insert, _splice, _swap,
)  # fmt: skip
