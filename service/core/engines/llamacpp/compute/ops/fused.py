"""Operations that do the work of many: attention, state-space scans, the delta rule.

Source: ggml/src/ggml.c:2006-6500 (llama.cpp in llama-cpp-python 0.3.36, ggml 0.25.3).
"""

from service.core.engines.llamacpp.compute.node import F32, Node, Op, Shape, new_node
from service.core.types import TensorType


def flash_attn_ext(q: Node, k: Node, v: Node, mask: Node | None, sinks: Node | None = None) -> Node:
    """Fused attention; q, k, v permuted to [head size, tokens, heads, streams]."""
    srcs = (q, k, v) if mask is None else (q, k, v, mask)
    if sinks is not None:
        srcs = (*srcs, sinks)
    return new_node(Op.FLASH_ATTN_EXT, F32, (v.ne[0], q.ne[2], q.ne[1], q.ne[3]), srcs)


def lightning_indexer(q: Node, keys: Node, weights: Node, mask: Node) -> Node:
    """Scores of all cells for each token, over all heads of the indexer."""
    return new_node(Op.LIGHTNING_INDEXER, F32, (keys.ne[2], q.ne[2], 1, q.ne[3]), (q, keys, weights, mask))


def ssm_conv(sx: Node, kernel: Node) -> Node:
    """Causal convolution; sx: [kernel - 1 + tokens, channels, sequences]."""
    return new_node(Op.SSM_CONV, F32, (kernel.ne[1], sx.ne[0] - kernel.ne[0] + 1, sx.ne[2], 1), (sx, kernel))


def ssm_scan(srcs: tuple[Node, Node, Node, Node, Node, Node, Node], snapshots: int = 1) -> Node:
    """Selective scan of (state, x, dt, A, B, C, ids): outputs and new states in one row."""
    state, x, ids = srcs[0], srcs[1], srcs[6]
    n = x.elements + snapshots * state.ne[0] * state.ne[1] * state.ne[2] * ids.ne[0]
    return new_node(Op.SSM_SCAN, F32, (n, 1, 1, 1), srcs)


def gated_delta_net(srcs: tuple[Node, Node, Node, Node, Node, Node], snapshots: int = 1) -> Node:
    """Fused delta rule of (q, k, v, g, beta, state): outputs and new states."""
    size, heads, tokens, sequences = srcs[2].ne
    return new_node(
        Op.GATED_DELTA_NET, F32, (size * heads, tokens * sequences + snapshots * size * sequences, 1, 1), srcs
    )


def custom(ne: Shape, srcs: tuple[Node, ...], type_: TensorType = F32) -> Node:
    """Any other operation that gets memory of its own."""
    return new_node(Op.OTHER, type_, ne, srcs)
