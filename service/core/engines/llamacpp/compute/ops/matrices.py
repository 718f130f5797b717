"""Products of matrices, and what works on whole rows.

Source: ggml/src/ggml.c:2006-6500 (llama.cpp in llama-cpp-python 0.3.36, ggml 0.25.3).
"""

from service.core.engines.llamacpp.compute.node import F32, I32, Node, Op, new_node
from service.core.engines.llamacpp.compute.ops.views import view


def mul_mat(a: Node, b: Node) -> Node:
    """A·B: rows of `a` against rows of `b`."""
    n0 = a.ne[1]
    _, n1, n2, n3 = b.ne
    nb1 = 4 * n0
    nb2 = nb1 * n1
    nb3 = nb2 * n2
    return Node(Op.MUL_MAT, F32, (n0, n1, n2, n3), (4, nb1, nb2, nb3), nb3 * n3, (a, b))


def mul_mat_id(experts: Node, b: Node, ids: Node) -> Node:
    """Each token's rows against its selected experts' matrices."""
    return new_node(Op.MUL_MAT_ID, F32, (experts.ne[1], ids.ne[0], b.ne[2], 1), (experts, b, ids))


def sum_rows(a: Node) -> Node:
    """Sum of each row."""
    _, n1, n2, n3 = a.ne
    return new_node(Op.SUM_ROWS, a.type, (1, n1, n2, n3), (a,))


def mean(a: Node) -> Node:
    """Mean of each row."""
    _, n1, n2, n3 = a.ne
    return new_node(Op.OTHER, a.type, (1, n1, n2, n3), (a,))


def argsort(a: Node) -> Node:
    """Order of each row, as I32."""
    return new_node(Op.ARGSORT, I32, a.ne, (a,))


def argsort_top_k(a: Node, k: int) -> Node:
    """The first k of argsort, a view of it."""
    order = argsort(a)
    return view(order, (k, *order.ne[1:]), order.nb[1:])


def top_k(a: Node, k: int) -> Node:
    """Indices of the k largest, as I32."""
    return new_node(Op.TOP_K, I32, (k, *a.ne[1:]), (a,))
