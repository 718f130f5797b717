"""Operations that copy, gather, tile or convert.

Source: ggml/src/ggml.c:2006-6500 (llama.cpp in llama-cpp-python 0.3.36, ggml 0.25.3).
"""

from service.core.engines.llamacpp.compute.node import F32, I32, Node, Op, new_node
from service.core.engines.llamacpp.compute.ops.elementwise import like
from service.core.engines.llamacpp.compute.ops.views import new_view
from service.core.types import TensorType


def repeat_4d(a: Node, ne0: int, ne1: int, ne2: int, ne3: int) -> Node:
    """A tiled to a larger shape."""
    return new_node(Op.OTHER, a.type, (ne0, ne1, ne2, ne3), (a,))


def repeat(a: Node, b: Node) -> Node:
    """A tiled to `b`'s shape."""
    return new_node(Op.OTHER, a.type, b.ne, (a,))


def concat(a: Node, b: Node, dim: int) -> Node:
    """B after A along `dim`."""
    ne = list(a.ne)
    ne[dim] += b.ne[dim]
    return new_node(Op.OTHER, a.type, (ne[0], ne[1], ne[2], ne[3]), (a, b))


def pad(a: Node, p0: int, p1: int = 0, p2: int = 0, p3: int = 0) -> Node:
    """A with zeros appended."""
    n0, n1, n2, n3 = a.ne
    return new_node(Op.OTHER, a.type, (n0 + p0, n1 + p1, n2 + p2, n3 + p3), (a,))


def cont(a: Node) -> Node:
    """A copied to contiguous memory."""
    return like(Op.OTHER, a, (a,))


def cont_4d(a: Node, ne0: int, ne1: int = 1, ne2: int = 1, ne3: int = 1) -> Node:
    """A copied to contiguous memory of another shape (cont_2d, cont_3d, cont_4d)."""
    return new_node(Op.OTHER, a.type, (ne0, ne1, ne2, ne3), (a,))


def cast(a: Node, type_: TensorType) -> Node:
    """A converted; the result is its own second source, as in ggml_cast."""
    node = new_node(Op.OTHER, type_, a.ne, (a,))
    node.srcs = (a, node)
    return node


def cpy(a: Node, b: Node) -> Node:
    """A written to where `b` lies."""
    return new_view(Op.OTHER, b, b.ne, b.nb, (a, b))


def set_rows(a: Node, b: Node, rows: Node) -> Node:
    """Rows of `b` written into `a`."""
    return new_view(Op.SET_ROWS, a, a.ne, a.nb, (b, rows, a))


def get_rows(a: Node, rows: Node) -> Node:
    """Rows of `a`, as F32 (or I32 of an I32 tensor)."""
    n0, n1, n2, _ = rows.ne
    return new_node(Op.GET_ROWS, I32 if a.type.id == I32.id else F32, (a.ne[0], n0, n1, n2), (a, rows))
