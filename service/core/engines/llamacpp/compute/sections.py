"""What the allocator does for each block of a graph, and for what comes before the first one.

Source: ggml_gallocr_alloc_graph_impl, ggml/src/ggml-alloc.c:718-830 (llama.cpp in llama-cpp-python 0.3.36).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TypeAlias, TypeVar

from service.core.engines.llamacpp.compute.graph import Graph
from service.core.engines.llamacpp.compute.liveness import Lives, Step, follow, place_upfront
from service.core.engines.llamacpp.compute.node import INPUT, Node, Op
from service.core.engines.llamacpp.compute.schedule import Schedule, Split

Chunk: TypeAlias = tuple[Sequence[int], ...]
"""Events of each backend."""

_T = TypeVar("_T")

_Share: TypeAlias = tuple[int, int, int]
"""A section's share of a split: the section, copies and nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sections:
    """Events by section: what comes before the blocks is the first, each block that is built one more.

    upfront: for each kind of what is placed before all nodes, events of each section. parts: of each section its shares
    of splits, as events of copies and of nodes. continues: whether the first of these belongs to a split that an
    earlier section began. pieces: those that each section takes; nodes: what each piece is taken for.
    """

    upfront: list[list[Chunk]]
    parts: list[list[tuple[Chunk, Chunk]]]
    continues: list[bool]
    pieces: list[list[int]]
    nodes: list[Node]

    def mentioned(self, section: int, remains: Mapping[int, int]) -> set[int]:
        """Pieces that a section takes or gives back, or keeps a part of."""
        chunks = [kind[section] for kind in self.upfront]
        chunks += [chunk for part in self.parts[section] for chunk in part]
        found = {max(event, ~event) for chunk in chunks for events in chunk for event in events}
        return found | {remains[piece] for piece in found if piece in remains}


def shares_of(graph: Graph, splits: Sequence[Split]) -> list[list[_Share]]:
    """Of each split the sections that have a part of it, before backends change the order of nodes."""
    ends = [*(nodes for nodes, _ in graph.begins), len(graph.nodes)]
    section, first, shares = 0, 0, []
    for part in splits:
        copies, copied, at = [copy for _, copy in part.copied], 0, 0
        found: list[_Share] = []
        while at < len(part.nodes):
            while ends[section] <= first + at:
                section += 1
            end = min(ends[section] - first, len(part.nodes))
            before = copied
            for node in part.nodes[at:end]:
                while copied < len(copies) and copies[copied] in node.srcs:
                    copied += 1
            found.append((section, copied - before, end - at))
            at = end
        first += at
        shares.append(found)
    return shares


def follow_sections(
    graph: Graph, plan: Schedule, shares: Sequence[Sequence[_Share]], n_backends: int
) -> tuple[Sections, Lives]:
    """Walk through a graph section by section; `plan` as backends want it."""
    lives, n_sections = _NotedLives(n_backends), len(graph.begins) + 1
    found = Sections(
        upfront=[],
        parts=[[] for _ in range(n_sections)],
        continues=[False] * n_sections,
        pieces=[[] for _ in range(n_sections)],
        nodes=lives.nodes,
    )
    recorder = _Recorder(lives, found)
    for kind in _upfront(graph, plan, shares):
        found.upfront.append([recorder.placed(section, leafs) for section, leafs in enumerate(kind)])
    for part, shared in zip(plan.splits, shares, strict=True):
        copied = _cut(part.copied, [count for _, count, _ in shared])
        nodes = _cut_with_notes(part.nodes, [count for _, _, count in shared])
        chunks = [recorder.followed(section, copies) for (section, _, _), copies in zip(shared, copied, strict=True)]
        for number, ((section, _, _), chunk, computed) in enumerate(zip(shared, chunks, nodes, strict=True)):
            if not found.parts[section]:
                found.continues[section] = number > 0
            found.parts[section].append((chunk, recorder.followed(section, computed)))
    return found, lives


class _NotedLives(Lives):
    """The same, with a note of what each piece is taken for."""

    __slots__ = ("nodes",)

    def __init__(self, n_backends: int) -> None:
        super().__init__(n_backends)
        self.nodes: list[Node] = []

    def take(self, node: Node) -> None:
        super().take(node)
        self.nodes.append(node)

    def take_over(self, node: Node, src: Node) -> None:
        super().take_over(node, src)
        if len(self.sizes) > len(self.nodes):
            self.nodes.append(node)


class _Recorder:
    """Notes what is added to events, and which pieces are taken."""

    def __init__(self, lives: Lives, found: Sections) -> None:
        self._lives, self._found = lives, found

    def placed(self, section: int, leafs: Iterable[Node]) -> Chunk:
        """Events of leafs and copies that are placed before all nodes."""
        return self._recorded(section, lambda: place_upfront(self._lives, leafs))

    def followed(self, section: int, steps: Iterable[Step]) -> Chunk:
        """Events of further steps."""
        return self._recorded(section, lambda: follow(self._lives, steps))

    def _recorded(self, section: int, walk: Callable[[], None]) -> Chunk:
        before, taken = [len(events) for events in self._lives.events], len(self._lives.sizes)
        walk()
        self._found.pieces[section] += range(taken, len(self._lives.sizes))
        return tuple([events[start:] for events, start in zip(self._lives.events, before, strict=True)])


def _upfront(graph: Graph, plan: Schedule, shares: Sequence[Sequence[_Share]]) -> Iterator[list[Sequence[Node]]]:
    """Copies of inputs, copies of what crosses, and leafs, each by section."""
    ends = [*(leafs for _, leafs in graph.begins), len(graph.leafs)]
    leafs: list[Sequence[Node]] = [graph.leafs[first:end] for first, end in pairwise([0, *ends])]
    crossing = [0] * len(ends)
    for section, copied, _ in (share for shared in shares for share in shared):
        crossing[section] += copied
    inputs = [sum([1 for leaf in each if leaf.flags & INPUT]) for each in leafs]
    n_copies = len(plan.copies) // max(1, sum(inputs) + sum(crossing))
    yield _cut(plan.copies[: n_copies * sum(inputs)], [n_copies * count for count in inputs])
    yield _cut(plan.copies[n_copies * sum(inputs) :], [n_copies * count for count in crossing])
    yield leafs


def _cut(steps: Sequence[_T], counts: Sequence[int]) -> list[Sequence[_T]]:
    """Steps in runs of so many."""
    return [steps[end - count : end] for count, end in zip(counts, accumulate(counts), strict=True)]


def _cut_with_notes(nodes: Sequence[Node], counts: Sequence[int]) -> list[Sequence[Node]]:
    """The same, where notes, which are no nodes of the graph, stay behind the node that they are for."""
    ends, found = list(accumulate(counts)), []
    numbers = list(accumulate([node.op != Op.NONE for node in nodes]))
    first = 0
    for end in ends:
        last = bisect_right(numbers, end)
        found.append(nodes[first:last])
        first = last
    return found
