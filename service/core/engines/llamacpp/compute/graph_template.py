"""Graphs that are built once and used for many placements of the same blocks.

Which nodes a graph has does not depend on where blocks lie: only what lies where, and what is tied to it, does. A graph
is built with sites instead of backends (that of each block, of the output, of the host), and for each placement sites
are replaced and everything that scheduling and allocation change is put back.

Source: what llama_context::graph_reserve builds from, src/llama-context.cpp:2523-2600 (llama.cpp in llama-cpp-python
0.3.36); where tensors lie is read from their buffers only by the scheduler, ggml/src/ggml-backend.cpp:921-987.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from service.core.engines.llamacpp.compute.graph import Graph
from service.core.engines.llamacpp.compute.node import NOWHERE, WEIGHT, Node
from service.core.engines.llamacpp.compute.weights import BLOCK_PREFIX, WeightTable

HOST_SITE: Final = 1 << 20
OUTPUT_SITE: Final = HOST_SITE + 1
BLOCK_SITES: Final = HOST_SITE + 2
"""The site of block 0; those of the others follow."""

_Saved = tuple[Node, tuple[Node, ...], Node | None, int, int, int, int, int, int]
"""A node, its sources and root, bytes, readers, views, flags, buffer and place."""


class UnknownSiteError(Exception):
    """A graph in which something lies at a site and is no weight of the model."""


class GraphTemplate:
    """A graph as it was built; weights: nodes that stand for weights at sites, by block, name and site.

    One thread may use it at a time. Raises UnknownSiteError for a graph with leafs at sites of its own making.
    """

    __slots__ = ("_graph", "_leafs", "_plain", "_table", "_weighted", "_weights")

    def __init__(self, graph: Graph, table: WeightTable, weights: Mapping[tuple[int, str, int], Node]) -> None:
        self._graph = graph
        self._table = table
        self._weights = {node: key for key, node in weights.items()}
        self._leafs = [_saved(node) for node in graph.leafs]
        self._plain: list[_Saved] = []
        self._weighted: list[_Saved] = []
        for node in graph.nodes:
            found = [src for src in (*node.srcs, node.view) if src is not None and src.flags & WEIGHT]
            if any(src not in self._weights for src in found):
                raise UnknownSiteError
            (self._weighted if found else self._plain).append(_saved(node))

    def placed(self, blocks: Sequence[int], output: int, host: int, moved: Mapping[str, int]) -> Graph:
        """The graph with blocks, output and host on these backends, and weights that are elsewhere there."""
        sites = {HOST_SITE: host, OUTPUT_SITE: output, NOWHERE: NOWHERE}
        sites |= {BLOCK_SITES + il: backend for il, backend in enumerate(blocks)}
        weights = {stand_in: self._weight(*key, sites, moved) for stand_in, key in self._weights.items()}
        _put_back(self._leafs, sites)
        _put_back(self._plain, sites)
        _put_back(self._weighted, sites)
        for node, srcs, view, *_ in self._weighted:
            node.srcs = tuple([weights.get(src, src) for src in srcs])
            if view in weights:
                node.view = weights[view]
                node.buffer = node.view.buffer
        graph = Graph()
        graph.nodes, graph.leafs = list(self._graph.nodes), list(self._graph.leafs)
        return graph

    def _weight(self, block: int, name: str, site: int, sites: Mapping[int, int], moved: Mapping[str, int]) -> Node:
        full_name = name if block < 0 else f"{BLOCK_PREFIX}{block}.{name}"
        found = self._table.node(block, name, moved.get(full_name, sites[site]))
        if found is None:
            raise KeyError(full_name)
        return found


def _saved(node: Node) -> _Saved:
    return node, node.srcs, node.view, node.size, node.children, node.views, node.flags, node.buffer, node.place


def _put_back(saved: Sequence[_Saved], sites: Mapping[int, int]) -> None:
    for node, srcs, _, size, children, views, flags, buffer, place in saved:
        node.srcs = srcs
        node.size = size
        node.children = children
        node.views = views
        node.flags = flags
        node.owner = node.owner_backend = NOWHERE
        node.place = sites[place]
        if buffer >= 0:
            node.buffer = sites[buffer]
