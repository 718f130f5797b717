"""Which tensors of a graph get memory of their own, in which order, and when each is given back.

None of this depends on sizes, so one walk serves every context length.

Source: ggml/src/ggml-alloc.c (llama.cpp in llama-cpp-python 0.3.36, ggml 0.25.3).
"""

from collections.abc import Iterable
from typing import TypeAlias

from service.core.engines.llamacpp.compute.node import OUTPUT, Node, Op

Step: TypeAlias = Node | tuple[Node, Node]
"""A node that is computed, or a source and its copy on another backend."""


class Lives:
    """What the allocator does with one graph, step by step.

    sizes: bytes of each piece of memory, before alignment. events: per backend, the number of a piece where it is taken
    and its complement (~number) where it is given back. remains: pieces that are not taken anew but are what is kept of
    another, whose end is given back.
    """

    __slots__ = ("events", "remains", "sizes")

    def __init__(self, n_backends: int) -> None:
        self.sizes: list[int] = []
        self.remains: dict[int, int] = {}
        self.events: list[list[int]] = [[] for _ in range(n_backends)]

    def take(self, node: Node) -> None:
        """Give `node` memory of its own."""
        node.owner = len(self.sizes)
        node.owner_backend = node.place
        self.events[node.place].append(node.owner)
        self.sizes.append(node.size)

    def take_over(self, node: Node, src: Node) -> None:
        """Give `node` the memory of `src`, and back what `src` had beyond it.

        Source: ggml_gallocr_free_extra_space, ggml/src/ggml-alloc.c:600-622.
        """
        node.owner = src.owner
        node.owner_backend = src.owner_backend
        if src.size != node.size:
            node.owner = len(self.sizes)
            self.remains[node.owner] = src.owner
            self.events[src.owner_backend].append(node.owner)
            self.sizes.append(node.size)
        src.owner = -1

    def release(self, node: Node) -> None:
        """Give back what nobody reads any more: the node's memory, or that of the tensor it is the last view of."""
        root = node.view
        if root is not None:
            root.views -= 1
            if root.views or root.children:
                return
            node = root
        if node.owner >= 0 and not node.flags & OUTPUT:
            self.events[node.owner_backend].append(~node.owner)
            node.owner = -1


def trace(upfront: Iterable[Node], steps: Iterable[Step], n_backends: int) -> Lives:
    """Walk through a graph and note which memory is taken and given back.

    upfront: leafs and copies that are placed before anything else. steps: nodes in order; a pair (source, copy) copies
    a source from another backend at the start of a split.
    """
    lives = Lives(n_backends)
    place_upfront(lives, upfront)
    follow(lives, steps)
    return lives


def place_upfront(lives: Lives, leafs: Iterable[Node]) -> None:
    """Give memory to leafs and copies that have none."""
    for leaf in leafs:
        if leaf.owner < 0 and leaf.buffer < 0:
            lives.take(leaf)


def follow(lives: Lives, steps: Iterable[Step]) -> None:
    """Go on with further steps.

    Source: ggml_gallocr_allocate_node, _free_node and _alloc_graph_impl, ggml/src/ggml-alloc.c:612-830. A view's memory
    is never taken over: ggml_gallocr_is_own is false for views.
    """
    take, release, events = lives.take, lives.release, lives.events
    views, last_inplace, lasts = Op.TRANSPOSE, Op.LAST_INPLACE, OUTPUT
    for step in steps:
        if type(step) is tuple:
            source, copy = step
            source.children -= 1
            if source.children == 0 and source.views == 0:
                release(source)
            if copy.owner < 0:
                take(copy)
            continue
        node: Node = step  # type: ignore[assignment]
        srcs = node.srcs
        if node.view is None and not (views < node.op <= last_inplace and _take_over(lives, node, srcs)):
            take(node)
        for src in srcs:
            left = src.children - 1
            src.children = left
            if left or src.views:
                continue
            if src.view is not None:
                release(src)
            elif src.owner >= 0 and not src.flags & lasts:
                events[src.owner_backend].append(~src.owner)
                src.owner = -1


def _take_over(lives: Lives, node: Node, srcs: tuple[Node, ...]) -> bool:
    """Compute `node` into the memory of a source that nobody else reads."""
    for src in srcs:
        if (
            src.owner >= 0
            and src.children == 1
            and src.views == 0
            and not src.flags & OUTPUT
            and src.ne == node.ne
            and src.nb == node.nb
            and src.type.id == node.type.id
        ):
            lives.take_over(node, src)
            return True
    return False
