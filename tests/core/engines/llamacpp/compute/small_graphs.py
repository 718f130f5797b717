"""Small graphs for tests: weights, inputs and caches by hand."""

from service.core.engines.llamacpp.compute.graph import Graph
from service.core.engines.llamacpp.compute.node import F16, F32, I32, INPUT, WEIGHT, Node, leaf
from service.core.engines.llamacpp.compute.ops import flash_attn_ext, swap_12, view
from service.core.tensor_types import TENSOR_TYPE_BY_NAME
from service.core.types import TensorType

WIDTH = 256
TOKENS = 64


def weight(backend: int, rows: int = WIDTH, type_: str = "f32") -> Node:
    """A matrix in the memory of `backend`."""
    node = leaf(TENSOR_TYPE_BY_NAME[type_], (WIDTH, rows, 1, 1), buffer=backend, flags=WEIGHT)
    node.seen = True
    return node


def experts(backend: int, n_experts: int = 8, type_: str = "q4_K") -> Node:
    """Matrices of experts in the memory of `backend`."""
    node = leaf(TENSOR_TYPE_BY_NAME[type_], (WIDTH, WIDTH, n_experts, 1), buffer=backend, flags=WEIGHT)
    node.seen = True
    return node


def tokens(n_tokens: int = TOKENS) -> Node:
    """An input of hidden states."""
    return leaf(F32, (WIDTH, n_tokens, 1, 1), flags=INPUT)


def choice(n_used: int, n_tokens: int = TOKENS) -> Node:
    """An input of chosen experts."""
    return leaf(I32, (n_used, n_tokens, 1, 1), flags=INPUT)


def attention(  # a test names what matters to it
    *,
    type_k: TensorType = F16,
    type_v: TensorType = F16,
    head_k: int = 128,
    head_v: int = 128,
    heads: int = 8,
    heads_kv: int = 2,
    n_tokens: int = TOKENS,
    cells: int = 512,
    masked: bool = True,
) -> Node:
    """Fused attention over caches."""
    q = leaf(F32, (head_k, heads, n_tokens, 1), flags=INPUT)
    k = cache(type_k, head_k, heads_kv, cells)
    v = cache(type_v, head_v, heads_kv, cells)
    mask = leaf(F16, (cells, n_tokens, 1, 1), flags=INPUT) if masked else None
    return flash_attn_ext(swap_12(q), swap_12(k), swap_12(v), mask)


def latent_attention(type_: TensorType, n_tokens: int = TOKENS, cells: int = 512) -> Node:
    """Fused attention whose V is part of K."""
    q = leaf(F32, (576, 16, n_tokens, 1), flags=INPUT)
    k = swap_12(cache(type_, 576, 1, cells))
    v = view(k, (512, *k.ne[1:]), k.nb[1:])
    return flash_attn_ext(swap_12(q), k, v, leaf(F16, (cells, n_tokens, 1, 1), flags=INPUT))


def cache(type_: TensorType, head: int, heads: int, cells: int) -> Node:
    """All cells of a cache as [head size, heads, cells]."""
    whole = leaf(type_, (head * heads, cells, 1, 1), buffer=0)
    return view(whole, (head, heads, cells, 1), (type_.row_bytes(head), whole.nb[1], whole.nb[2]))


def graph_of(*results: Node) -> Graph:
    """A graph that ends in `results`."""
    graph = Graph()
    for result in results:
        graph.expand(result)
    return graph
