"""Kept graphs as bytes: integers alone, with a checksum that tells damage, and read back only where they make sense."""

import hashlib
import zlib
from collections.abc import Mapping, Sequence
from itertools import chain
from struct import calcsize, pack, unpack
from typing import Any, Final, TypeAlias

import orjson

from service.core.engines.llamacpp.compute.footprint import SYMBOLS, Pieces, Terms
from service.core.engines.llamacpp.compute.kept_graphs import Counts, GraphPieces, Sizes

_CHECKSUM_BYTES: Final = 8
_NUMBER_BYTES: Final = calcsize("<q")
# of 1,660 graphs the median is 11 KB when it is unpacked, the largest 330 KB
_MOST_UNPACKED_BYTES: Final = 1 << 26
# the fastest: a quarter of the size in a tenth of the time that the graph took
_COMPRESSION: Final = 1
_MOST: Final = 1 << 62

_Varying: TypeAlias = Mapping[int, tuple[int, Terms]]


class DamagedError(Exception):
    """Bytes that are not what was kept."""


def counts_to_bytes(counts: Counts) -> bytes:
    """Cells of the caches as the second half of the name of a row."""
    return pack(f"<{len(counts)}q", *counts)


def counts_from_bytes(kept: bytes) -> Counts:
    """The same counts, none for a model without a cache; raises DamagedError."""
    return _numbers(kept)


def sizes_to_bytes(key: bytes, counts: bytes, sizes: Sizes) -> bytes:
    """The buffers of the graph `key` for some counts."""
    content = pack(f"<{len(sizes)}q", *sizes)
    return _checksum(key, counts, content) + content


def sizes_from_bytes(key: bytes, counts: bytes, kept: bytes, n_buffers: int) -> Sizes:
    """The same buffers; raises DamagedError."""
    sizes = _numbers(_checked(kept, key, counts))
    if len(sizes) != n_buffers or min(sizes) < 0:
        raise DamagedError
    return sizes


def pieces_to_bytes(key: bytes, graphs: GraphPieces) -> bytes:
    """What the buffers of the graph `key` are made of."""
    stated = orjson.dumps([[_stated(pieces) for pieces in buffers] for buffers in graphs])
    content = zlib.compress(stated, _COMPRESSION)
    return _checksum(key, content) + content


def pieces_from_bytes(key: bytes, kept: bytes, n_buffers: int) -> GraphPieces:
    """The same pieces; raises DamagedError."""
    content = _checked(kept, key)
    try:
        graphs = orjson.loads(zlib.decompressobj().decompress(content, _MOST_UNPACKED_BYTES))
        if type(graphs) is not list or any(len(buffers) != n_buffers for buffers in graphs):
            raise DamagedError
        return [[_pieces(*stated) for stated in buffers] for buffers in graphs]
    except (ValueError, TypeError, KeyError, zlib.error) as damage:
        raise DamagedError from damage


def _stated(pieces: Pieces) -> list[Any]:
    """Pieces as lists; of what remains of others only what is in this buffer."""
    here = {event: pieces.remains[event] for event in pieces.rest if event in pieces.remains}
    return [
        pieces.rest,
        *_columns(here),
        *_columns(pieces.constant),
        _with_terms(pieces.lasting),
        _with_terms(pieces.varying),
        pieces.lasting_bytes,
    ]


def _columns(table: Mapping[int, int]) -> tuple[list[int], list[int]]:
    return list(table), list(table.values())


def _with_terms(table: _Varying) -> list[list[Any]]:
    return [[piece, constant, *chain.from_iterable(terms)] for piece, (constant, terms) in table.items()]


def _pieces(  # what `_stated` lists
    rest: Any, left: Any, wholes: Any, fixed: Any, fixed_bytes: Any, lasting: Any, varying: Any, lasting_bytes: Any, /
) -> Pieces:  # fmt: skip
    found = Pieces(
        rest=tuple(_whole(rest)),
        remains=dict(zip(_whole(left), _whole(wholes), strict=True)),
        constant=dict(zip(_whole(fixed), _positive(fixed_bytes), strict=True)),
        lasting=dict(map(_from_terms, lasting)),
        varying=dict(map(_from_terms, varying)),
        lasting_bytes=_positive([lasting_bytes])[0],
    )
    sized = found.constant.keys() | found.varying.keys()
    taken: set[int] = set()
    for event in found.rest:
        if event >= 0:
            taken.add(event)
        elif ~event not in taken:
            raise DamagedError
    if not (taken <= sized and found.remains.keys() <= taken and taken.issuperset(found.remains.values())):
        raise DamagedError
    return found


def _from_terms(stated: Sequence[Any]) -> tuple[int, tuple[int, Terms]]:
    piece, constant, *terms = stated
    kinds, factors = terms[::2], terms[1::2]
    if not kinds or not SYMBOLS.keys() >= set(kinds):
        raise DamagedError
    _whole([piece, constant])
    return piece, (constant, tuple(zip(kinds, _positive(factors), strict=True)))


def _whole(values: Any) -> list[int]:
    """A list of integers."""
    if type(values) is not list or set(map(type, values)) - {int}:
        raise DamagedError
    return values


def _positive(values: Any) -> list[int]:
    """A list of integers from 0 on that leave room for sums."""
    if min(_whole(values), default=0) < 0 or max(values, default=0) > _MOST:
        raise DamagedError
    return values  # type: ignore[no-any-return]


def _numbers(content: bytes) -> tuple[int, ...]:
    if len(content) % _NUMBER_BYTES:
        raise DamagedError
    return unpack(f"<{len(content) // _NUMBER_BYTES}q", content)


def _checked(kept: bytes, *beside: bytes) -> bytes:
    """What stands behind the checksum; raises DamagedError where it is another's."""
    if kept[:_CHECKSUM_BYTES] != _checksum(*beside, kept[_CHECKSUM_BYTES:]):
        raise DamagedError
    return kept[_CHECKSUM_BYTES:]


def _checksum(*parts: bytes) -> bytes:
    digest = hashlib.blake2b(digest_size=_CHECKSUM_BYTES)
    for part in parts:
        digest.update(part)
    return digest.digest()
