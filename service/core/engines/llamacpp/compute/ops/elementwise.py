"""Operations on single elements and on rows: sums, products, activations, norms, rotations.

Source: ggml/src/ggml.c:2006-6500 (llama.cpp in llama-cpp-python 0.3.36, ggml 0.25.3).
"""

from service.core.engines.llamacpp.compute.node import Node, Op, new_node, strides
from service.core.engines.llamacpp.compute.ops.views import new_view


def like(op: int, a: Node, srcs: tuple[Node, ...]) -> Node:
    """A contiguous tensor of `a`'s type and shape (ggml_dup_tensor)."""
    if a.view is None:
        return Node(op, a.type, a.ne, a.nb, a.size, srcs)
    nb, size = strides(a.type, a.ne)
    return Node(op, a.type, a.ne, nb, size, srcs)


def add(a: Node, b: Node) -> Node:
    """A + B, `b` repeated to `a`'s shape."""
    return like(Op.ADD, a, (a, b))


def add_inplace(a: Node, b: Node) -> Node:
    """A + B, written over `a`."""
    return new_view(Op.ADD, a, a.ne, a.nb, (a, b))


def sub(a: Node, b: Node) -> Node:
    """A - B elementwise."""
    return like(Op.SUB, a, (a, b))


def mul(a: Node, b: Node) -> Node:
    """A · B elementwise."""
    return like(Op.MUL, a, (a, b))


def div(a: Node, b: Node) -> Node:
    """A / B elementwise."""
    return like(Op.DIV, a, (a, b))


def add_id(a: Node, b: Node, ids: Node) -> Node:
    """A plus the row of `b` that `ids` selects."""
    return like(Op.ADD_ID, a, (a, b, ids))


def scale(a: Node) -> Node:
    """A times a constant (also scale_bias)."""
    return like(Op.SCALE, a, (a,))


def scale_inplace(a: Node) -> Node:
    """A times a constant, written over `a`."""
    return new_view(Op.SCALE, a, a.ne, a.nb)


def clamp(a: Node) -> Node:
    """A within bounds."""
    return like(Op.CLAMP, a, (a,))


def fill(a: Node) -> Node:
    """A constant in `a`'s shape."""
    return like(Op.FILL, a, (a,))


def sqr(a: Node) -> Node:
    """A squared."""
    return like(Op.SQR, a, (a,))


def sqrt(a: Node) -> Node:
    """Square root of A."""
    return like(Op.SQRT, a, (a,))


def log(a: Node) -> Node:
    """Logarithm of A."""
    return like(Op.LOG, a, (a,))


def unary(a: Node) -> Node:
    """Any pointwise function: silu, gelu, relu, tanh, sigmoid, softplus, exp, neg, abs, xielu."""
    return like(Op.UNARY, a, (a,))


silu = gelu = relu = tanh = sigmoid = softplus = exp = neg = unary


def rms_norm(a: Node) -> Node:
    """Root-mean-square norm; may overwrite its source."""
    return like(Op.RMS_NORM, a, (a,))


def norm(a: Node) -> Node:
    """Mean-and-variance norm; never in place."""
    return like(Op.NORM, a, (a,))


def l2_norm(a: Node) -> Node:
    """Rows of length 1 (also group_norm, sin, cos); never in place."""
    return like(Op.OTHER, a, (a,))


group_norm = sin = cos = l2_norm


group_norm = l2_norm = sin = cos = norm


def rope(a: Node, positions: Node, factors: Node | None = None) -> Node:
    """Rotary position embedding (ext and multi)."""
    return like(Op.ROPE, a, (a, positions) if factors is None else (a, positions, factors))


def soft_max(a: Node, mask: Node | None = None, sinks: Node | None = None) -> Node:
    """Softmax along rows with optional mask and attention sinks."""
    srcs = (a,) if mask is None else (a, mask)
    return like(Op.SOFT_MAX, a, srcs if sinks is None else (*srcs, sinks))


def glu(a: Node) -> Node:
    """Gated unit over the two halves of a row (swiglu, geglu, reglu)."""
    n0, n1, n2, n3 = a.ne
    return new_node(Op.OTHER, a.type, (n0 // 2, n1, n2, n3), (a,))


def glu_split(a: Node, b: Node) -> Node:
    """Gated unit of two tensors (swiglu_split, geglu_split, reglu_split, swiglu_oai, swiglu_clamp)."""
    return like(Op.OTHER, a, (a, b))
