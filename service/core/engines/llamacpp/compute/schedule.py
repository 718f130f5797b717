"""Which backend computes each node, and what has to be copied between backends.

Source: ggml_backend_sched_split_graph, ggml/src/ggml-backend.cpp:1068-1608 (llama.cpp in llama-cpp-python 0.3.36).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from service.core.engines.llamacpp.compute.graph import Graph
from service.core.engines.llamacpp.compute.node import INPUT, NOWHERE, OUTPUT, WEIGHT, Node, Op, extent_bytes

OFFLOAD_MIN_BATCH: Final = 32
"""Rows from which a device computes with weights that lie in host memory (GGML_OP_OFFLOAD_MIN_BATCH)."""

_PERSISTENT: Final = INPUT | OUTPUT


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A graph cut into splits.

    steps: what the allocator walks through: nodes, and (source, copy) pairs at the head of the split that needs them.
    copies: in pipelines, all copies of inputs and of what crosses, which are placed first and stay.
    n_splits: runs of nodes on one backend.
    """

    steps: list[Node | tuple[Node, Node]]
    copies: list[Node]
    n_splits: int


def assign_weights(nodes: Sequence[Node], host: int, offload_to: int) -> None:
    """Pass 1: operations on weights and caches go where these are, inputs to the host.

    host: the last backend; offload_to: the first device that computes large batches with host weights, or NOWHERE.
    Source: ggml_backend_sched_backend_id_from_cur, ggml-backend.cpp:921-987; the size of a batch:
    get_op_batch_size, ggml/src/ggml-cuda/ggml-cuda.cu:5636-5655 (the same in ggml-vulkan and ggml-metal).
    """
    for node in nodes:
        if node.place >= 0:
            continue
        if node.buffer >= 0:
            node.place = node.buffer
            continue
        op = node.op
        if op <= Op.TRANSPOSE or op in (Op.ROPE, Op.FLASH_ATTN_EXT):
            continue
        for src in node.srcs:
            if src.flags & WEIGHT:
                place = src.buffer
                if place == host and offload_to >= 0 and batch_rows(node) >= OFFLOAD_MIN_BATCH:
                    place = offload_to
                node.place = place
                break


def batch_rows(node: Node) -> int:
    """Rows an operation computes at once, as backends count them to decide whether copying weights pays."""
    if node.op == Op.MUL_MAT:
        return node.ne[1]
    if node.op == Op.MUL_MAT_ID:
        return node.ne[2]
    return 0 if node.op == Op.GET_ROWS else node.ne[1] * node.ne[2] * node.ne[3]


def spread(nodes: Sequence[Node], host: int) -> None:
    """Pass 2: unassigned nodes join their neighbours, devices before the host, downwards before upwards.

    Source: ggml-backend.cpp:1134-1207. Backends are taken to support every operation that is assigned to them here.
    """
    backwards = nodes[::-1]
    for order in (nodes, backwards):
        current = NOWHERE
        for node in order:
            place = node.place
            if place >= 0:
                current = NOWHERE if place == host else place
            elif current >= 0:
                node.place = current
    for order in (nodes, backwards):
        current = NOWHERE
        for node in order:
            if node.place >= 0:
                current = node.place
            elif current >= 0:
                node.place = current


def schedule(graph: Graph, host: int, offload_to: int, n_copies: int, *, copies_weights: bool) -> Schedule:
    """Assign every node of `graph` to a backend and cut the graph into splits.

    copies_weights: whether any operation may run elsewhere than its weight lies.

    Changes the nodes: place, and sources that are replaced by copies.
    """
    computed = [node for node in graph.nodes if node.op > Op.TRANSPOSE]
    for leaf in graph.leafs:
        if leaf.flags & INPUT:
            leaf.place = host
    assign_weights(computed, host, offload_to)
    spread(computed, host)
    return split(graph, computed[0].place, n_copies, copies_weights=copies_weights)


def split(graph: Graph, first: int, n_copies: int, *, copies_weights: bool) -> Schedule:
    """Passes 4 and 5: cut where the backend changes, copy sources that lie elsewhere.

    A new split also begins where a further weight has to be copied in, so that the memory of earlier ones is reused.
    Source: ggml-backend.cpp:1264-1407 and, for the order of the steps, 1511-1608.
    """
    steps: list[Node | tuple[Node, Node]] = []
    segment: list[Node | tuple[Node, Node]] = []
    crossing: list[tuple[Node, Node]] = []
    copies = _input_copies(graph, n_copies)
    made: dict[tuple[Node, int], Node] = {}
    current = first
    n_splits = 1
    for node in graph.nodes:
        if node.op <= Op.TRANSPOSE:
            segment.append(node)
            continue
        place = node.place
        if place != current or (crossing and copies_weights and _needs_weight_copy(node, place)):
            steps += crossing
            steps += segment
            crossing, segment = [], []
            current = place
            n_splits += 1
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
    steps += crossing
    steps += segment
    return Schedule(steps=steps, copies=copies, n_splits=n_splits)


def _needs_weight_copy(node: Node, place: int) -> bool:
    return any(src.flags & WEIGHT and src.buffer != place for src in node.srcs)


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
