"""Which backend computes each node, and what has to be copied between backends.

Source: ggml_backend_sched_split_graph, ggml/src/ggml-backend.cpp:1068-1608 (llama.cpp in llama-cpp-python 0.3.36).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from service.core.engines.llamacpp.buffer_types import buffer_rules
from service.core.engines.llamacpp.compute.graph import Graph
from service.core.engines.llamacpp.compute.node import INPUT, NOWHERE, OUTPUT, WEIGHT, Node, Op, extent_bytes
from service.core.engines.llamacpp.compute.support import Unable, unable_backends
from service.core.types import Backend

OFFLOAD_MIN_BATCH: Final = 32
"""Rows from which a device computes with weights that lie in host memory (GGML_OP_OFFLOAD_MIN_BATCH)."""

MATRICES_ONLY: Final[frozenset[Backend]] = frozenset(("metal",))
"""Backends that take over nothing but matrix products from the host."""

_MATRIX_PRODUCTS: Final = frozenset((Op.MUL_MAT, Op.MUL_MAT_ID))
_PERSISTENT: Final = INPUT | OUTPUT


@dataclass(slots=True)
class Split:
    """A run of nodes on one backend.

    copied: (source, copy) pairs that are made before it starts. nodes: what it computes, in order.
    """

    place: int
    copied: list[tuple[Node, Node]]
    nodes: Sequence[Node]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A graph cut into splits.

    copies: in pipelines, all copies of inputs and of what crosses, which are placed first and stay.
    """

    splits: list[Split]
    copies: list[Node]

    @property
    def steps(self) -> Iterator[Node | tuple[Node, Node]]:
        """What the allocator walks through: each split's copies, then its nodes."""
        return chain.from_iterable([steps for part in self.splits for steps in (part.copied, part.nodes)])


def assign_weights(nodes: Sequence[Node], backends: Sequence[Backend], unable: Unable, *, op_offload: bool) -> None:
    """Pass 1: operations on weights and caches go where these are, inputs to the host.

    op_offload: whether devices compute large batches with weights of the host.
    Source: ggml_backend_sched_backend_id_from_cur, ggml-backend.cpp:921-987.
    """
    host = len(backends)
    last_view, unweighted, weight = Op.TRANSPOSE, (Op.ROPE, Op.FLASH_ATTN_EXT), WEIGHT
    for node in nodes:
        if node.place >= 0:
            continue
        if node.buffer >= 0:
            node.place = node.buffer
            continue
        op = node.op
        if op <= last_view or op in unweighted:
            continue
        for src in node.srcs:
            if src.flags & weight:
                place = src.buffer
                if place == host and op_offload and batch_rows(node) >= OFFLOAD_MIN_BATCH:
                    place = _offload_to(node, backends, unable)
                node.place = place
                break


def _offload_to(node: Node, backends: Sequence[Backend], unable: Unable) -> int:
    """The first device that takes a large batch over from the host, else the host.

    Source: offload_op of each backend: ggml-cuda/ggml-cuda.cu:5651, ggml-vulkan/ggml-vulkan.cpp:15973,
    ggml-sycl/ggml-sycl.cpp:6863, ggml-metal/ggml-metal.cpp:774 (matrix products alone).
    """
    for device, backend in enumerate(backends):
        takes = buffer_rules(backend).offloads_ops and (backend not in MATRICES_ONLY or node.op in _MATRIX_PRODUCTS)
        if takes and device not in unable.get(node, ()):
            return device
    return len(backends)


def batch_rows(node: Node) -> int:
    """Rows an operation computes at once, as backends count them to decide whether copying weights pays.

    Source: get_op_batch_size, ggml/src/ggml-cuda/ggml-cuda.cu:5636-5649, the same in the other backends.
    """
    if node.op == Op.MUL_MAT:
        return node.ne[1]
    if node.op == Op.MUL_MAT_ID:
        return node.ne[2]
    return 0 if node.op == Op.GET_ROWS else node.ne[1] * node.ne[2] * node.ne[3]


def spread(nodes: Sequence[Node], host: int, unable: Unable) -> None:
    """Pass 2: unassigned nodes join their neighbours, devices before the host, downwards before upwards.

    Source: ggml-backend.cpp:1134-1207.
    """
    backwards = nodes[::-1]
    for order in (nodes, backwards):
        current = NOWHERE
        for node in order:
            place = node.place
            if place >= 0:
                current = NOWHERE if place == host else place
            elif current >= 0 and not (unable and current in unable.get(node, ())):
                node.place = current
    for order in (nodes, backwards):
        current = NOWHERE
        for node in order:
            if node.place >= 0:
                current = node.place
            elif current >= 0 and not (unable and current in unable.get(node, ())):
                node.place = current


def settle(nodes: Iterable[Node], host: int, unable: Unable) -> None:
    """Pass 3: what no neighbour can compute goes to the first of the backends where most of its sources lie.

    Source: ggml-backend.cpp:1209-1238.
    """
    for node in nodes:
        if node.place == NOWHERE:
            roots = [src if src.view is None else src.view for src in node.srcs]
            able = [backend for backend in range(host + 1) if backend not in unable[node]]
            node.place = max(able, key=lambda backend: sum(root.place == backend for root in roots))


def place_nodes(graph: Graph, backends: Sequence[Backend], *, op_offload: bool) -> None:
    """Assign every operation of `graph` to a device, or to the host behind the devices; sets the nodes' place."""
    host = len(backends)
    computed = [node for node in graph.nodes if node.op > Op.TRANSPOSE]
    for leaf in graph.leafs:
        if leaf.flags & INPUT:
            leaf.place = host
    unable = unable_backends(computed, backends)
    assign_weights(computed, backends, unable, op_offload=op_offload)
    spread(computed, host, unable)
    if unable:
        settle(unable, host, unable)


def split(graph: Graph, n_copies: int, *, copies_weights: bool) -> Schedule:
    """Passes 4 and 5: cut where the backend changes, copy sources that lie elsewhere.

    copies_weights: whether any operation may run elsewhere than its weight lies. A new split also begins where a
    further weight has to be copied in, so that the memory of earlier ones is reused. Changes the sources of nodes that
    read copies.
    Source: ggml-backend.cpp:1264-1407 and, for the order of the steps, 1511-1608.
    """
    copies = _input_copies(graph, n_copies)
    made: dict[tuple[Node, int], Node] = {}
    crossing: list[tuple[Node, Node]] = []
    segment: list[Node] = []
    current = next(node.place for node in graph.nodes if node.op > Op.TRANSPOSE)
    splits = [Split(current, crossing, segment)]
    last_view = Op.TRANSPOSE
    for node in graph.nodes:
        if node.op <= last_view:
            segment.append(node)
            continue
        place = node.place
        if place != current or (crossing and copies_weights and _needs_weight_copy(node, place)):
            crossing, segment = [], []
            current = place
            splits.append(Split(current, crossing, segment))
        for src in node.srcs:
            at = src.place
            if at == NOWHERE:  # a view lies where its root does, unless it was tied to a backend itself
                root = src if src.view is None else src.view
                at = root.place
                if at == NOWHERE:
                    root.place = at = place
            if at != place:
                copy = made.get((src, place))
                if copy is None:
                    copy = _copy_of(src, place, n_copies)
                    made[src, place] = copy
                    crossing.append((src, copy))
                    if n_copies > 1:
                        copies.append(copy)
                        copies += [_copy_of(src, place, n_copies) for _ in range(n_copies - 1)]
                    src.children += 1
                src.children -= 1
                copy.children += 1
                node.srcs = tuple(copy if s is src else s for s in node.srcs)
        segment.append(node)
    return Schedule(splits=splits, copies=copies)


def _needs_weight_copy(node: Node, place: int) -> bool:
    for src in node.srcs:  # noqa: SIM110 - asked for nearly every node
        if src.flags & WEIGHT and src.buffer != place:
            return True
    return False


def _copy_of(src: Node, place: int, n_copies: int) -> Node:
    flags = _PERSISTENT if n_copies > 1 else 0
    copy = Node(Op.NONE, src.type, src.ne, src.nb, extent_bytes(src.type, src.ne, src.nb), (), flags=flags)
    copy.place = place
    return copy


def _input_copies(graph: Graph, n_copies: int) -> list[Node]:
    """In pipelines every input is kept `n_copies` times on the host, the original being the first.

    Source: pass 6, ggml-backend.cpp:1417-1455.
    """
    copies: list[Node] = []
    if n_copies > 1:
        for leaf in graph.leafs:
            if leaf.flags & INPUT:
                leaf.flags |= OUTPUT
                copies.append(leaf)
                copies += [_copy_of(leaf, leaf.place, n_copies) for _ in range(n_copies - 1)]
    return copies
