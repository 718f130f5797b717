"""Sources that live until an operation that is fused with their readers is done."""

from collections.abc import Sequence

import pytest

from service.core.engines.llamacpp.compute.graph import Graph
from service.core.engines.llamacpp.compute.kept_sources import kept_sources, with_notes
from service.core.engines.llamacpp.compute.node import F32, INPUT, OUTPUT, Node, Op, leaf
from service.core.engines.llamacpp.compute.ops import (
    add,
    argsort_top_k,
    clamp,
    div,
    get_rows,
    mul,
    reshape,
    rms_norm,
    scale,
    sigmoid,
    soft_max,
    sum_rows,
    view,
)
from service.core.types import Backend

EMBEDDING = 64
TOKENS = 16


def values(*ne: int) -> Node:
    """An input of a shape."""
    shape = (*ne, 1, 1, 1)
    return leaf(F32, (shape[0], shape[1], shape[2], shape[3]), flags=INPUT)


def weighted_sum(n_used: int, *, scaled: bool = False) -> tuple[list[Node], Node, Node]:
    """Nodes of the weighted sum of experts' outputs, these outputs and their weights."""
    graph = Graph()
    outputs, weights = values(EMBEDDING, n_used, TOKENS), values(1, n_used, TOKENS)
    product = mul(mul(outputs, values(1, n_used, TOKENS)), weights) if scaled else mul(outputs, weights)
    parts = [view(product, (EMBEDDING, TOKENS), (product.nb[2],)) for _ in range(n_used)]
    for part in parts:
        graph.expand(part)
    total = parts[0]
    for part in parts[1:]:
        total = add(total, part)
    graph.expand(total)
    return graph.nodes, outputs, weights


def router(n_experts: int, *, masked: bool = False, normed: bool = True) -> tuple[list[Node], Node]:
    """Nodes of a softmax router and one behind them, and its logits."""
    graph = Graph()
    logits = values(n_experts, TOKENS)
    scores = soft_max(logits, values(n_experts, TOKENS) if masked else None)
    chosen = argsort_top_k(scores, 2)
    weights = get_rows(reshape(scores, 1, n_experts, TOKENS), chosen)
    if normed:
        flat = reshape(weights, 2, TOKENS)
        weights = reshape(div(flat, clamp(sum_rows(flat))), 1, 2, TOKENS)
    graph.expand(sigmoid(weights))
    return graph.nodes, logits


def kept(nodes: Sequence[Node], backend: Backend) -> dict[int, list[Node]]:
    """What is kept, by position."""
    found = kept_sources(nodes, backend)
    return {i: found[node] for i, node in enumerate(nodes) if node in found}


@pytest.mark.parametrize("backend", ["cuda", "rocm", "metal"])
def test_outputs_of_experts_live_until_they_are_added_up(backend: Backend) -> None:
    """Without that the product with the weights would overwrite them."""
    nodes, outputs, weights = weighted_sum(8)
    assert kept(nodes, backend) == {len(nodes) - 1: [outputs, weights]}


@pytest.mark.parametrize(("n_used", "backends"), [(2, {"cuda", "metal"}), (10, {"cuda"}), (15, {"cuda"}), (16, set())])
def test_only_so_many_experts_are_added_up_at_once(n_used: int, backends: set[Backend]) -> None:
    """CUDA adds up to 15, Metal up to 8."""
    nodes, outputs, _ = weighted_sum(n_used)
    both: tuple[Backend, ...] = ("cuda", "metal")
    assert {backend for backend in both if any(outputs in each for each in kept(nodes, backend).values())} == backends


def test_scales_of_experts_are_kept_as_well() -> None:
    """Outputs, scales and weights are read by the one operation."""
    nodes, outputs, weights = weighted_sum(4, scaled=True)
    found = kept(nodes, "cuda")
    assert list(found) == [len(nodes) - 1]
    assert outputs in found[len(nodes) - 1]
    assert weights in found[len(nodes) - 1]
    assert len(found[len(nodes) - 1]) == 3


def test_a_product_that_is_wanted_itself_is_not_fused() -> None:
    """What is read elsewhere has to be written, so nothing is gained by fusing."""
    nodes, *_ = weighted_sum(4)
    nodes[0].flags |= OUTPUT
    assert kept(nodes, "cuda") == {}


def test_other_backends_keep_nothing_of_the_sum() -> None:
    """Vulkan, SYCL and RPC do not fuse it."""
    nodes, *_ = weighted_sum(4)
    others: tuple[Backend, ...] = ("vulkan", "sycl", "rpc")
    assert [kept(nodes, backend) for backend in others] == [{}, {}, {}]


@pytest.mark.parametrize(("n_experts", "fused"), [(128, True), (288, True), (160, False), (1024, False)])
def test_routers_of_some_sizes_are_fused(n_experts: int, fused: bool) -> None:
    """CUDA has kernels for powers of two up to 512, for 288 and 576 experts; all of a router lives until behind it."""
    nodes, logits = router(n_experts)
    found = kept(nodes, "cuda")
    assert list(found) == ([len(nodes) - 1] if fused else [])
    assert all(logits in nodes_kept and nodes[0] in nodes_kept for nodes_kept in found.values())


def test_a_masked_softmax_is_no_router() -> None:
    """Attention's softmax has a mask."""
    nodes, _ = router(128, masked=True)
    assert kept(nodes, "cuda") == {}


@pytest.mark.parametrize("normed", [True, False])
def test_vulkan_keeps_the_logits_of_a_router(normed: bool) -> None:
    """Only what comes from outside is kept, until the last node of the pattern."""
    nodes, logits = router(160, normed=normed)
    assert kept(nodes, "vulkan") == {len(nodes) - 2: [logits]}


def test_metal_keeps_what_a_norm_and_its_product_read() -> None:
    """A norm that is multiplied is one operation there."""
    state, factor = values(EMBEDDING, TOKENS), values(EMBEDDING)
    graph = Graph()
    graph.expand(scale(mul(rms_norm(state), factor)))
    assert kept(graph.nodes, "metal") == {1: [state, factor]}
    assert kept(graph.nodes, "cuda") == {}


def test_a_note_reads_what_is_kept() -> None:
    """It stands behind the node, computes nothing, and counts as a reader."""
    nodes, outputs, weights = weighted_sum(3)
    readers = outputs.children, weights.children
    noted = with_notes(nodes, kept_sources(nodes, "cuda"))
    assert [node.op for node in noted[-2:]] == [Op.ADD, Op.NONE]
    assert noted[-1].srcs == (outputs, weights)
    assert (outputs.children, weights.children) == (readers[0] + 1, readers[1] + 1)
