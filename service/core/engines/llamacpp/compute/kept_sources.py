"""Sources that a backend keeps until an operation that it fuses with others is done.

They live longer than the graph alone needs, and nothing is computed into their memory. The largest are the outputs of
experts before they are weighted and added up.

Source: graph_optimize of each backend (ggml 0.25.3 in llama-cpp-python 0.3.36): ggml/src/ggml-cuda/ggml-cuda.cu:
2813-2965, 3036-3176, 4522-4612 with topk-moe.cu:403-447; ggml-vulkan/ggml-vulkan.cpp:14663-14790 and
ggml-vulkan-types.h:506-528; ggml-metal/ggml-metal-fusion.cpp:318-345, 642-765.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

from service.core.engines.llamacpp.compute.node import F32, OUTPUT, Node, Op
from service.core.types import Backend

Pattern: TypeAlias = tuple[int, ...]
Kept: TypeAlias = tuple[int, list[Node]]
"""Position of the node that something is kept for, and what."""

KeptFor: TypeAlias = Mapping[Node, list[Node]]
"""What is kept for a node."""

_MAX_REDUCED_EXPERTS: Final = 15
_ROUTED_EXPERTS: Final = frozenset((1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 288, 576))

_SOFTMAX_ROUTER: Final = (Op.SOFT_MAX, Op.RESHAPE, Op.ARGSORT, Op.VIEW, Op.GET_ROWS)
_BIASED: Final = (Op.RESHAPE, Op.ADD, Op.ARGSORT, Op.VIEW, Op.GET_ROWS)
_NORMALISED: Final = (Op.RESHAPE, Op.SUM_ROWS, Op.CLAMP, Op.DIV, Op.RESHAPE)
_ROUTERS: Final[tuple[Pattern, ...]] = tuple(
    (*scores, *norm, *scale)
    for scores in (
        _SOFTMAX_ROUTER,
        (Op.SOFT_MAX, *_BIASED),
        (Op.UNARY, *_SOFTMAX_ROUTER[1:]),
        (Op.UNARY, *_BIASED),
        (Op.UNARY, Op.SQRT, *_SOFTMAX_ROUTER[1:]),
        (Op.UNARY, Op.SQRT, *_BIASED),
    )
    for norm in (_NORMALISED, ())
    for scale in ((Op.SCALE,), ())
)

VULKAN_ROUTERS: Final[tuple[Pattern, ...]] = (
    (*_SOFTMAX_ROUTER, *_NORMALISED),
    (Op.UNARY, *_BIASED, *_NORMALISED),
    (Op.UNARY, Op.SQRT, *_BIASED, *_NORMALISED),
    _SOFTMAX_ROUTER,
    (Op.ARGSORT, Op.VIEW, Op.GET_ROWS, Op.RESHAPE, Op.SOFT_MAX, Op.RESHAPE),
)
"""Routers that Vulkan computes at once, tried in this order."""

_VULKAN: Final[tuple[Pattern, ...]] = tuple(
    (*pattern, *scale) for pattern in VULKAN_ROUTERS for scale in ((Op.SCALE,), ())
)

_METAL: Final[tuple[Pattern, ...]] = (
    *((norm, *then) for norm in (Op.NORM, Op.RMS_NORM) for then in ((Op.MUL,), (Op.MUL, Op.ADD), (Op.SCALE,))),
    *((Op.ADD,) * n for n in range(2, 8)),
    (Op.SSM_CONV, Op.UNARY),
    *((*_SOFTMAX_ROUTER, *norm, *scale) for norm in (_NORMALISED, ()) for scale in ((Op.SCALE,), ())),
    *((Op.MUL, *(Op.VIEW,) * n, *(Op.ADD,) * (n - 1)) for n in range(2, 9)),
)


def _longest(ops: Sequence[int], at: int, patterns: Mapping[int, Sequence[Pattern]]) -> Pattern | None:
    """The longest pattern that the operations from `at` on follow."""
    for pattern in patterns.get(ops[at], ()):
        if tuple(ops[at : at + len(pattern)]) == pattern:
            return pattern
    return None


def _by_first(patterns: Sequence[Pattern]) -> Mapping[int, Sequence[Pattern]]:
    """Patterns by their first operation, the longest first."""
    ordered = sorted(patterns, key=len, reverse=True)
    return {op: [pattern for pattern in ordered if pattern[0] == op] for op in {pattern[0] for pattern in patterns}}


def _of_patterns(patterns: Sequence[Pattern]) -> Callable[[Sequence[Node]], Iterator[Kept]]:
    """Keep what a pattern reads from outside until its last node."""
    by_first = _by_first(patterns)

    def find(nodes: Sequence[Node]) -> Iterator[Kept]:
        ops = [node.op for node in nodes]
        at = 0
        while at < len(nodes):
            pattern = _longest(ops, at, by_first) if ops[at] in by_first else None
            if pattern is None:
                at += 1
                continue
            matched = nodes[at : at + len(pattern)]
            kept: list[Node] = []
            inside: list[Node] = []
            for node in matched:
                kept += [src for src in node.srcs if src not in inside and src not in kept]
                inside.append(node)
            at += len(pattern)
            yield at - 1, kept

    return find


_ROUTERS_BY_FIRST: Final = _by_first(_ROUTERS)


def _of_cuda(nodes: Sequence[Node]) -> Iterator[Kept]:
    """Outputs of experts and their weights until they are added up; everything of a router until behind it."""
    ops = [node.op for node in nodes]
    at = 0
    while at < len(nodes):
        if ops[at] == Op.MUL:
            found = _reduction(nodes, at)
            if found is not None:
                yield found
                at = found[0]
        elif ops[at] in _ROUTERS_BY_FIRST:
            pattern = _longest(ops, at, _ROUTERS_BY_FIRST)
            end = at + len(pattern) if pattern else at
            if pattern and end < len(nodes) and _is_router(nodes[at:end]):
                kept = {src: None for node in nodes[at:end] for src in (node, *node.srcs)}
                yield end, list(kept)
                at = end - 1
        at += 1


def _reduction(nodes: Sequence[Node], at: int) -> Kept | None:
    """Experts · weights, or experts · scales · weights, and the sum over experts; None where that is not it."""
    first, second = nodes[at], nodes[at + 1] if at + 1 < len(nodes) else None
    factors = _factors(first)
    if not factors:
        return None
    n_products, weighted = 1, first
    if second is not None and second.op == Op.MUL and first in second.srcs and _factors(second):
        n_products, weighted = 2, second
        factors += [src for src in second.srcs if src is not first]
    n_used = weighted.ne[1]
    end = at + n_products + 2 * n_used - 1
    inside = nodes[at:end]
    if not 2 <= n_used <= _MAX_REDUCED_EXPERTS or len(inside) < end - at:
        return None
    views, sums = inside[n_products : n_products + n_used], inside[n_products + n_used :]
    added = views[0]
    for view, total in zip(views[1:], sums, strict=True):
        if total.op != Op.ADD or total.srcs != (added, view):
            return None
        added = total
    if any(view.op != Op.VIEW or view.view is not weighted for view in views):
        return None
    return (end - 1, factors) if _only_used_within(inside, (inside[-1],)) else None


def _factors(node: Node) -> list[Node]:
    """Rows and one factor for each, of a product of these; empty for other products."""
    if node.type is F32:
        for full, factor in (node.srcs, node.srcs[::-1]):
            if full.ne == node.ne and factor.ne == (1, *node.ne[1:]) and full.is_contiguous and factor.is_contiguous:
                return [full, factor]
    return []


def _is_router(nodes: Sequence[Node]) -> bool:
    """Whether the kernel for routers computes it: a known number of experts, and nothing else reads what is between."""
    chosen = next(node for node in nodes if node.op == Op.VIEW)
    n_experts = chosen.nb[1] // chosen.nb[0]
    masked = nodes[0].op == Op.SOFT_MAX and len(nodes[0].srcs) > 1
    return not masked and n_experts in _ROUTED_EXPERTS and _only_used_within(nodes, (chosen, nodes[-1]))


def _only_used_within(nodes: Sequence[Node], results: Sequence[Node]) -> bool:
    """Whether nothing but `results` is read from outside (ggml_can_fuse_subgraph)."""
    for i, node in enumerate(nodes):
        if node in results:
            continue
        if node.flags & OUTPUT or sum(other.srcs.count(node) for other in nodes[i + 1 :]) != node.children:
            return False
    return True


KEEPERS: Final[Mapping[Backend, Callable[[Sequence[Node]], Iterator[Kept]]]] = MappingProxyType(
    {"cuda": _of_cuda, "rocm": _of_cuda, "vulkan": _of_patterns(_VULKAN), "metal": _of_patterns(_METAL)}
)
"""What each backend keeps, split by split; nothing where there is no entry."""


def kept_sources(nodes: Sequence[Node], backend: Backend) -> KeptFor:
    """What `backend` keeps until which nodes of a split are computed.

    Source: ggml_backend_sched_split_graph, ggml/src/ggml-backend.cpp:1459-1500.
    """
    find = KEEPERS.get(backend)
    kept_for: dict[Node, list[Node]] = {}
    for at, kept in find(nodes) if find else ():
        known = kept_for.setdefault(nodes[at], [])
        known += [node for node in kept if node not in known]
    return kept_for


def with_notes(nodes: Sequence[Node], kept_for: KeptFor) -> Sequence[Node]:
    """The nodes of one split, with a note behind each that something is kept for.

    A note reads what is kept and computes nothing. Changes the counts of readers.
    Source: ggml-backend.cpp:1547-1565.
    """
    if not kept_for:
        return nodes
    noted: list[Node] = []
    for node in nodes:
        noted.append(node)
        if node in kept_for:
            noted.append(_note(kept_for[node]))
    return noted


def _note(kept: Sequence[Node]) -> Node:
    for node in kept:
        node.children += 1
    first = kept[0]
    return Node(Op.NONE, first.type, first.ne, first.nb, 0, tuple(kept), first)
