"""A graph under construction: nodes in the order they will be computed."""

from service.core.engines.llamacpp.compute.node import Node


class Graph:
    """Nodes and leafs in the order ggml_build_forward_expand finds them.

    Counts, while it visits, how many nodes read each tensor and how many views it has.

    Source: ggml_visit_parents_graph, ggml/src/ggml.c:7245-7311 (llama.cpp in llama-cpp-python 0.3.36): depth first,
    sources left to right, a node after its sources; what no operation computes is a leaf.

    begins: for each block that is built, how many nodes and leafs there were when it began.
    """

    __slots__ = ("begins", "leafs", "nodes")

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.leafs: list[Node] = []
        self.begins: list[tuple[int, int]] = []

    def begin_block(self) -> None:
        """Note that what is appended from here on is of the next block, or of the end of the one before."""
        self.begins.append((len(self.nodes), len(self.leafs)))

    def expand(self, node: Node) -> None:
        """Append `node` and everything it needs that is not there yet."""
        if not node.seen:
            self._visit(node)

    def _visit(self, node: Node) -> None:
        node.seen = True
        for src in node.srcs:
            if not src.seen:
                self._visit(src)
            src.children += 1
        if node.op:
            self.nodes.append(node)
            if node.view is not None:
                node.view.views += 1
        else:
            self.leafs.append(node)
