"""What is kept as bytes comes back as it was, or not at all."""

import zlib
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.engines.llamacpp.compute.footprint import Pieces
from service.core.engines.llamacpp.compute.graph_inputs import graph_inputs
from service.core.engines.llamacpp.compute.graph_memory import Batch, graph_memory
from service.planning.kept_graphs.encoding import (
    DamagedError,
    _checksum,
    counts_from_bytes,
    counts_to_bytes,
    pieces_from_bytes,
    pieces_to_bytes,
    sizes_from_bytes,
    sizes_to_bytes,
)
from tests.core.engines.llamacpp.compute.architectures import catalogue_models
from tests.core.engines.llamacpp.compute.questions import question

KEY = b"key"
NUMBERS = st.integers(0, 2**63 - 1)
# one piece of each kind: lasting with and without cells, constant, growing with cells, and a rest of another
STATED: list[Any] = [
    [2, 3, ~2, 4, ~4], [4], [3], [0, 2, 3], [64, 128, 256], [[1, 0, "base", 2]], [[4, 0, "swa", 8]], 64
]  # fmt: skip


def framed(stated: object) -> bytes:
    """Bytes that are whole, whatever they say."""
    content = zlib.compress(orjson.dumps(stated))
    return _checksum(KEY, content) + content


def as_plain(pieces: Pieces) -> tuple[object, ...]:
    """Everything that pieces say, but for what remains of those of other buffers."""
    here = {event: pieces.remains[event] for event in pieces.rest if event in pieces.remains}
    return pieces.rest, here, pieces.constant, pieces.lasting, pieces.varying, pieces.lasting_bytes


@pytest.mark.parametrize("symbolic", [True, False])
def test_pieces_come_back_as_they_were(*, symbolic: bool) -> None:
    """For a graph of every architecture of the catalogue, with its buffers' order."""
    for model in catalogue_models().values():
        inputs = graph_inputs(question(model, backends=("cuda", "vulkan")), symbolic=symbolic)
        graph = graph_memory(inputs, Batch(n_tokens=512, n_seqs=1, n_outputs=1), fused_post=True)
        pieces = [footprint.pieces for footprint in graph]
        (found,) = pieces_from_bytes(KEY, pieces_to_bytes(KEY, [pieces]), len(pieces))
        assert list(map(as_plain, found)) == list(map(as_plain, pieces))


@given(counts=st.lists(NUMBERS, max_size=5).map(tuple), sizes=st.lists(NUMBERS, min_size=1, max_size=18).map(tuple))
def test_sizes_come_back_as_they_were(counts: tuple[int, ...], sizes: tuple[int, ...]) -> None:
    """Whatever the numbers."""
    named = counts_to_bytes(counts)
    assert counts_from_bytes(named) == counts
    assert sizes_from_bytes(KEY, named, sizes_to_bytes(KEY, named, sizes), len(sizes)) == sizes


@given(at=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_a_flipped_bit_is_found(at: int, bit: int) -> None:
    """Wherever it is."""
    for kept, read in _whole():
        damaged = bytearray(kept)
        damaged[at % len(kept)] ^= 1 << bit
        with pytest.raises(DamagedError):
            read(bytes(damaged))


def test_bytes_of_another_graph_are_not_read() -> None:
    """A row belongs to its name."""
    with pytest.raises(DamagedError):
        pieces_from_bytes(b"another", framed([[STATED]]), 1)
    with pytest.raises(DamagedError):
        sizes_from_bytes(KEY, b"other counts", sizes_to_bytes(KEY, b"counts", (1,)), 1)


@pytest.mark.parametrize(
    "stated",
    [
        None, {}, 0, [[]], [[STATED, STATED]], [STATED], [[STATED[:-1]]], [[[*STATED, 1]]],
        *([[[*STATED[:at], wrong, *STATED[at + 1 :]]]] for at, wrong in [
            (0, [2, "3", ~2]), (0, [2.0]), (0, None), (0, [9]), (0, [2, ~3, 3, 4]), (1, [9]), (2, []), (2, [9]),
            (4, [64, -128, 256]), (4, [64, 128]), (4, [64, True, 256]), (5, [[1, 0]]), (5, [[1, 0, "cells", 2]]),
            (5, [[1, 0, "base"]]), (6, [["4", 0, "swa", 8]]), (6, [[4, 0, "swa", -8]]), (7, -1), (7, 2**63), (7, None),
        ]),
    ],
    ids=str,
)  # fmt: skip
def test_what_makes_no_sense_is_not_read(stated: object) -> None:
    """Not even where the checksum is right: another count of buffers, pieces without a size, words for numbers."""
    assert pieces_from_bytes(KEY, framed([[STATED]]), 1)
    with pytest.raises(DamagedError):
        pieces_from_bytes(KEY, framed(stated), 1)


@pytest.mark.parametrize("sizes", [(), (1,), (1, 2, 3), (1, -1)])
def test_sizes_of_other_buffers_are_not_read(sizes: tuple[int, ...]) -> None:
    """There is one for each, and none is negative."""
    with pytest.raises(DamagedError):
        sizes_from_bytes(KEY, b"", sizes_to_bytes(KEY, b"", sizes), 2)


def _whole() -> list[tuple[bytes, Callable[[bytes], object]]]:
    return [
        (framed([[STATED]]), lambda kept: pieces_from_bytes(KEY, kept, 1)),
        (sizes_to_bytes(KEY, b"", (1, 2)), lambda kept: sizes_from_bytes(KEY, b"", kept, 2)),
    ]
