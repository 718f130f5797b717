"""Memory events of all blocks from those of a few: blocks that repeat others take memory as these do.

Some blocks take memory before the first one runs (tensors of zeros, copies of views of inputs), so that no few of them
need as much as all. Their graph is made of a few blocks all the same; what the allocator does for each of them is then
repeated for every block like it, each time with pieces of its own, and only addresses are found for all blocks.

Source: ggml_gallocr_alloc_graph_impl, ggml/src/ggml-alloc.c:718-830, which places leafs first, and
ggml_backend_sched_split_graph, ggml/src/ggml-backend.cpp:1371-1608, which copies what a split reads where it begins
(llama.cpp in llama-cpp-python 0.3.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, chain

from service.core.engines.llamacpp.compute.liveness import Lives
from service.core.engines.llamacpp.compute.sections import Chunk, Sections
from service.core.engines.llamacpp.compute.weight_copies import WeightCopy


class NoReplayError(Exception):
    """Blocks that are alike do not take and give back memory alike."""


def replayed(built: Sections, lives: Lives, repeated: Sequence[int], copies: Mapping[int, WeightCopy]) -> Lives:
    """The events of all blocks; lives: those of the built ones, followed section by section.

    repeated: for every block of a model, the position among the built ones of that which it repeats. copies: pieces
    that are as large as weights of the block. Raises NoReplayError where what a block reads of earlier ones cannot be
    told for those that repeat it, UnknownWeightError where a weight has no counterpart there.
    """
    templates = [0, *(1 + template for template in repeated)]
    made = _Instances(built, lives, templates, copies)
    found = Lives(len(lives.events))
    found.sizes = [
        copies[piece].bytes_in(block) if piece in copies else lives.sizes[piece]
        for block, template in enumerate(templates, -1)
        for piece in built.pieces[template]
    ]
    for section, chunk in _in_order(built, templates):
        names = made.names[section]
        for events, more in zip(found.events, chunk, strict=True):
            events += [names[event] if event >= 0 else ~names[~event] for event in more]
    found.remains = made.remains()
    made.check(found)
    return found


def _in_order(built: Sections, templates: Sequence[int]) -> Iterator[tuple[int, Chunk]]:
    """Sections and their events as the allocator meets them.

    What comes before all nodes goes section by section for each kind of it; the copies of a split come before its
    nodes, those of all sections that have a part of it together.
    """
    for upfront in built.upfront:
        yield from ((section, upfront[template]) for section, template in enumerate(templates))
    copies: list[tuple[int, Chunk]] = []
    nodes: list[tuple[int, Chunk]] = []
    for section, template in enumerate(templates):
        for number, (copied, computed) in enumerate(built.parts[template]):
            if number or not built.continues[template]:
                yield from copies
                yield from nodes
                copies, nodes = [], []
            copies.append((section, copied))
            nodes.append((section, computed))
    yield from copies
    yield from nodes


class _Instances:
    """Sections of all blocks; names: for each, its own and others' pieces by those of the section that it repeats."""

    def __init__(
        self, built: Sections, lives: Lives, templates: Sequence[int], copies: Mapping[int, WeightCopy]
    ) -> None:
        self._built, self._lives, self._templates, self._copies = built, lives, templates, copies
        self._first = [0, *accumulate([len(built.pieces[template]) for template in templates])]
        self._owner: dict[int, tuple[int, int]] = {
            piece: (section, number)
            for section, pieces in enumerate(built.pieces)
            for number, piece in enumerate(pieces)
        }
        latest: dict[int, int] = {}
        mentioned = [built.mentioned(template, lives.remains) for template in range(len(built.pieces))]
        self.names: list[Mapping[int, int]] = []
        for section, template in enumerate(templates):
            latest[template] = section
            self.names.append({piece: self._name(piece, section, latest) for piece in mentioned[template]})

    def _name(self, piece: int, section: int, latest: Mapping[int, int]) -> int:
        """The number of the piece that stands for a section where `piece` does for the one that it repeats.

        Pieces of the section before are of the one before here too; others are of the latest that repeats their own.
        """
        owner, number = self._owner[piece]
        whose = section - 1 if owner == self._templates[section] - 1 else latest.get(owner)
        if whose is None:
            raise NoReplayError
        pieces, alike = self._built.pieces[owner], self._built.pieces[self._templates[whose]]
        if len(alike) != len(pieces) or self._size(alike[number]) != self._size(piece):
            raise NoReplayError
        return self._first[whose] + number

    def _size(self, piece: int) -> object:
        """What the size of a piece is, or depends on."""
        return self._copies.get(piece) or self._lives.sizes[piece]

    def remains(self) -> dict[int, int]:
        """Pieces that are what is kept of another, by number."""
        remains = self._lives.remains
        return {
            names[piece]: names[remains[piece]]
            for names, template in zip(self.names, self._templates, strict=True)
            for piece in self._built.pieces[template]
            if piece in remains
        }

    def check(self, found: Lives) -> None:
        """Raise NoReplayError unless each piece is given back once where that which it repeats is, and else never."""
        freed_once = {~event for event in chain.from_iterable(self._lives.events) if event < 0}
        freed = [~event for event in chain.from_iterable(found.events) if event < 0]
        expected = {
            first + number
            for first, template in zip(self._first, self._templates, strict=False)
            for number, piece in enumerate(self._built.pieces[template])
            if piece in freed_once
        }
        if len(freed) != len(expected) or expected != set(freed):
            raise NoReplayError
