"""The order in which Vulkan computes the nodes of a split: what does not depend on each other comes together.

Source: ggml_vk_graph_optimize, ggml/src/ggml-vulkan/ggml-vulkan.cpp:14663-15047, with the patterns of
ggml-vulkan-types.h:506-559 (ggml 0.25.3 in llama-cpp-python 0.3.36). Patterns of single architectures are left out
(snake activation, block-sparse choice, gates of hyper-connections).
"""

from collections.abc import Sequence
from typing import Final

from service.core.engines.llamacpp.compute.kept_sources import VULKAN_ROUTERS, Pattern
from service.core.engines.llamacpp.compute.node import Node, Op

_REACH: Final = 20
"""How far ahead independent nodes are looked for."""

_PARTNER_REACH: Final = 15
"""How far ahead the rest of a fused operation is looked for."""

_UNBROKEN: Final[tuple[Pattern, ...]] = (
    *VULKAN_ROUTERS,
    (Op.RMS_NORM, Op.MUL, Op.ADD, Op.MUL),
    (Op.RMS_NORM, Op.MUL, Op.ADD),
    (Op.RMS_NORM, Op.MUL, Op.ROPE, Op.VIEW, Op.SET_ROWS),
    (Op.RMS_NORM, Op.VIEW, Op.SET_ROWS),
    (Op.ROPE, Op.VIEW, Op.SET_ROWS),
)

_FIRST_OPS: Final = frozenset(pattern[0] for pattern in _UNBROKEN)

_FUSED_NEIGHBOURS: Final = frozenset(
    (
        (Op.MUL_MAT, Op.ADD),
        (Op.MUL_MAT_ID, Op.ADD_ID),
        (Op.MUL_MAT_ID, Op.MUL),
        (Op.ADD, Op.ADD),
        (Op.SSM_CONV, Op.ADD),
        (Op.SSM_CONV, Op.UNARY),
    )
)
_FUSED_WITH_NEXT: Final = frozenset(((Op.RMS_NORM, Op.MUL), (Op.UNARY, Op.MUL)))


def vulkan_order(nodes: Sequence[Node]) -> list[Node]:
    """The nodes of one split in the order they are computed in."""
    return _Order(nodes).run()


class _Order:
    """One pass over the nodes.

    used: what has been put in the new order already; first: the first that has not.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self.ops = [node.op for node in nodes]
        self.used = [False] * len(nodes)
        self.first = 0
        self.order: list[Node] = []
        self.done: set[Node] = set()
        self.blockers = _blockers(nodes)

    def run(self) -> list[Node]:
        """The whole new order."""
        while self.first < len(self.nodes):
            pattern = self._pattern_at(self.first)
            if pattern is not None:
                self._put(list(range(self.first, self.first + len(pattern))))
            else:
                chosen = self._independent()
                if self.ops[chosen[-1]] != Op.ADD:
                    chosen += self._views(chosen)
                self._put(chosen)
        return self.order

    def _put(self, chosen: Sequence[int]) -> None:
        for i in chosen:
            self.order.append(self.nodes[i])
            self.done.add(self.nodes[i])
            self.used[i] = True
        while self.first < len(self.nodes) and self.used[self.first]:
            self.first += 1

    def _pattern_at(self, at: int) -> Pattern | None:
        ops, used = self.ops, self.used
        if ops[at] in _FIRST_OPS:
            for pattern in _UNBROKEN:
                end = at + len(pattern)
                if pattern[0] == ops[at] and tuple(ops[at:end]) == pattern and True not in used[at:end]:
                    return pattern
        return None

    def _independent(self) -> list[int]:
        """The first node and those near it that need nothing but what is done, with their partners."""
        chosen = [self.first]
        for j in range(self.first + 1, min(self.first + _REACH, len(self.nodes))):
            if self.used[j] or self.ops[j] <= Op.TRANSPOSE or self._pattern_at(j) is not None:
                continue
            last = chosen[-1]
            if all(c < self.first or self.used[c] or (c == last and self._fuses(c, j)) for c in self.blockers[j]):
                chosen.append(j)
                self._take_partners(chosen, j)
        return chosen

    def _fuses(self, c: int, j: int) -> bool:
        """Whether node j may follow node c at once although it reads it."""
        pair = self.ops[c], self.ops[j]
        if pair in _FUSED_WITH_NEXT:
            return all(self.used[i] or self.ops[i] <= Op.TRANSPOSE for i in range(c + 1, j))
        return j == c + 1 and pair in _FUSED_NEIGHBOURS

    def _take_partners(self, chosen: list[int], j: int) -> None:
        """What is computed together with node j, wherever it stands."""
        op, before = self.ops[j], self.ops[j - 1]
        rope = j
        if op == Op.MUL and before == Op.RMS_NORM:
            found = self._partner(j, Op.ROPE, first_source=True)
            if found is not None and all(not src.op for src in self.nodes[found].srcs[1:]):
                self._reserve(chosen, [found])
                rope = found
        if self.ops[rope] in (Op.ROPE, Op.RMS_NORM):
            self._take_store(chosen, rope)
        if op == Op.ADD_ID and before == Op.MUL_MAT_ID:
            self._take_done(chosen, j, Op.MUL)
        if op == Op.ADD and before == Op.MUL_MAT:
            self._take_done(chosen, j, Op.ADD)
        if op == Op.ADD and before == Op.SSM_CONV:
            found = self._partner(j, Op.UNARY, first_source=True)
            if found is not None:
                self._reserve(chosen, [found])
        if op == Op.UNARY:
            self._take_product(chosen, j)

    def _reserve(self, chosen: list[int], found: Sequence[int]) -> None:
        chosen += found
        for i in found:
            self.used[i] = True

    def _partner(self, j: int, op: int, *, first_source: bool) -> int | None:
        node = self.nodes[j]
        for k in range(j + 1, min(j + _PARTNER_REACH, len(self.nodes))):
            if self.ops[k] == op and first_source and self.nodes[k].srcs[0] is node:
                return k
        return None

    def _take_done(self, chosen: list[int], j: int, op: int) -> None:
        """The next operation on node j whose other source is a weight or done."""
        node = self.nodes[j]
        for k in range(j + 1, min(j + _PARTNER_REACH, len(self.nodes))):
            other = self.nodes[k]
            if self.ops[k] == op and other.srcs[0] is node and self._is_done(other.srcs[1]):
                self._reserve(chosen, [k])
                return

    def _take_product(self, chosen: list[int], j: int) -> None:
        """The product with node j, an activation, whose other factor is a weight or done."""
        node = self.nodes[j]
        for k in range(j + 1, min(j + _PARTNER_REACH, len(self.nodes))):
            product = self.nodes[k]
            if self.ops[k] != Op.MUL or node not in product.srcs:
                continue
            other = product.srcs[1] if product.srcs[0] is node else product.srcs[0]
            if self._is_done(other) and product.type is node.type and other.type is node.type:
                self._reserve(chosen, [k])
                return

    def _is_done(self, node: Node) -> bool:
        return not node.op or node in self.done

    def _take_store(self, chosen: list[int], rope: int) -> None:
        """The view and the store into a cache that follow a rotation or a norm, where nothing in between minds."""
        view = store = None
        for k in range(rope + 1, min(rope + _PARTNER_REACH, len(self.nodes))):
            if self.used[k]:
                continue
            if view is None and self.ops[k] == Op.VIEW and self.nodes[k].srcs[0] is self.nodes[rope]:
                view = k
            elif view is not None and self.ops[k] == Op.SET_ROWS and self.nodes[k].srcs[0] is self.nodes[view]:
                store = k
                break
        if view is None or store is None or self.nodes[rope].children != 1 or self.nodes[view].children != 1:
            return
        between = [
            c
            for c in self.blockers[store]
            if rope < c and not self.used[c] and c != view and self.ops[c] > Op.TRANSPOSE
        ]
        if not between:
            self._reserve(chosen, [view, store])

    def _views(self, chosen: Sequence[int]) -> list[int]:
        """Views near by whose sources are done or chosen."""
        views: list[int] = []
        for j in range(self.first + 1, min(self.first + _REACH, len(self.nodes))):
            if self.used[j] or self.ops[j] > Op.TRANSPOSE:
                continue
            if all(c < self.first or self.used[c] or c in chosen or c in views for c in self.blockers[j]):
                views.append(j)
        return views


def _blockers(nodes: Sequence[Node]) -> list[list[int]]:
    """Nodes shortly before each that it must not overtake: what it reads, and what reads or writes its memory."""
    bases = [node if node.view is None else node.view for node in nodes]
    read = [frozenset(src if src.view is None else src.view for src in node.srcs) for node in nodes]
    blockers: list[list[int]] = []
    for j, node in enumerate(nodes):
        base, computes = bases[j], node.op > Op.TRANSPOSE
        blockers.append(
            [
                c
                for c in range(max(0, j - _REACH), j)
                if bases[c] is base
                or nodes[c] in node.srcs
                or (computes and nodes[c].op > Op.TRANSPOSE and (bases[c] in read[j] or base in read[c]))
            ]
        )
    return blockers
