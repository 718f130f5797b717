"""ggml's operations, as shapes: one function per operation, named and ordered as in ggml.h.

Results are F32 unless said otherwise.

Source: ggml/src/ggml.c:2006-6400 (llama.cpp in llama-cpp-python 0.3.36, ggml 0.25.3).
"""

from service.core.engines.llamacpp.compute.node import F32, I32, Node, Op, new_node, strides
from service.core.types import TensorType

_OTHER = Op.OTHER
_INPLACE = Op.INPLACE


def like(op: int, a: Node, srcs: tuple[Node, ...]) -> Node:
    """A contiguous tensor of `a`'s type and shape (ggml_dup_tensor)."""
    if a.view is None:
        return Node(op, a.type, a.ne, a.nb, a.size, srcs)
    nb, size = strides(a.type, a.ne)
    return Node(op, a.type, a.ne, nb, size, srcs)


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


def add(a: Node, b: Node) -> Node:
    """A + B, `b` repeated to `a`'s shape."""
    return like(Op.ADD, a, (a, b))


sub = add


def add_inplace(a: Node, b: Node) -> Node:
    """A + B, written over `a`."""
    return _view(Op.ADD, a, a.ne, a.nb, (a, b))


def mul(a: Node, b: Node) -> Node:
    """A · B elementwise."""
    return like(_INPLACE, a, (a, b))


div = mul


def add_id(a: Node, b: Node, ids: Node) -> Node:
    """A plus the row of `b` that `ids` selects."""
    return like(_INPLACE, a, (a, b, ids))


def scale(a: Node) -> Node:
    """A times a constant (also scale_bias)."""
    return like(_INPLACE, a, (a,))


def scale_inplace(a: Node) -> Node:
    """A times a constant, written over `a`."""
    return _view(_INPLACE, a, a.ne, a.nb)


clamp = fill = sqr = sqrt = log = scale


def unary(a: Node) -> Node:
    """Any pointwise function: silu, gelu, relu, tanh, sigmoid, softplus, exp, neg, abs, xielu."""
    return like(Op.UNARY, a, (a,))


silu = gelu = relu = tanh = sigmoid = softplus = exp = neg = unary


def rms_norm(a: Node) -> Node:
    """Root-mean-square norm; may overwrite its source."""
    return like(_INPLACE, a, (a,))


def norm(a: Node) -> Node:
    """Mean-and-variance norm; never in place."""
    return like(_OTHER, a, (a,))


group_norm = l2_norm = sin = cos = norm


def cumsum(a: Node) -> Node:
    """Running sum along rows."""
    return like(Op.CUMSUM, a, (a,))


def tri(a: Node) -> Node:
    """Triangular part."""
    return like(_OTHER, a, (a,))


def diag(a: Node) -> Node:
    """A row as the diagonal of a square."""
    n0, _, n2, n3 = a.ne
    return new_node(_OTHER, a.type, (n0, n0, n2, n3), (a,))


def solve_tri(a: Node, b: Node) -> Node:
    """X with A·X = B for triangular A."""
    return new_node(_OTHER, F32, b.ne, (a, b))


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
    return new_node(_OTHER, a.type, (n0 // 2, n1, n2, n3), (a,))


def glu_split(a: Node, b: Node) -> Node:
    """Gated unit of two tensors (swiglu_split, geglu_split, reglu_split, swiglu_oai, swiglu_clamp)."""
    return like(_OTHER, a, (a, b))


def sum_rows(a: Node) -> Node:
    """Sum of each row."""
    _, n1, n2, n3 = a.ne
    return new_node(_OTHER, a.type, (1, n1, n2, n3), (a,))


mean = sum_rows


def repeat_4d(a: Node, ne0: int, ne1: int, ne2: int, ne3: int) -> Node:
    """A tiled to a larger shape."""
    return new_node(_OTHER, a.type, (ne0, ne1, ne2, ne3), (a,))


def repeat(a: Node, b: Node) -> Node:
    """A tiled to `b`'s shape."""
    return new_node(_OTHER, a.type, b.ne, (a,))


def concat(a: Node, b: Node, dim: int) -> Node:
    """B after A along `dim`."""
    ne = list(a.ne)
    ne[dim] += b.ne[dim]
    return new_node(_OTHER, a.type, (ne[0], ne[1], ne[2], ne[3]), (a, b))


def pad(a: Node, p0: int, p1: int = 0, p2: int = 0, p3: int = 0) -> Node:
    """A with zeros appended."""
    n0, n1, n2, n3 = a.ne
    return new_node(_OTHER, a.type, (n0 + p0, n1 + p1, n2 + p2, n3 + p3), (a,))


def cont(a: Node) -> Node:
    """A copied to contiguous memory."""
    return like(_OTHER, a, (a,))


def cont_4d(a: Node, ne0: int, ne1: int = 1, ne2: int = 1, ne3: int = 1) -> Node:
    """A copied to contiguous memory of another shape (cont_2d, cont_3d, cont_4d)."""
    return new_node(_OTHER, a.type, (ne0, ne1, ne2, ne3), (a,))


def cast(a: Node, type_: TensorType) -> Node:
    """A converted; the result is its own second source, as in ggml_cast."""
    node = new_node(_OTHER, type_, a.ne, (a,))
    node.srcs = (a, node)
    return node


def cpy(a: Node, b: Node) -> Node:
    """A written to where `b` lies."""
    return _view(_OTHER, b, b.ne, b.nb, (a, b))


def set_inplace(a: Node, b: Node) -> Node:
    """B written over a part of `a`."""
    return _view(_OTHER, a, a.ne, a.nb, (a, b))


def set_rows(a: Node, b: Node, rows: Node) -> Node:
    """Rows of `b` written into `a`."""
    return _view(_OTHER, a, a.ne, a.nb, (b, rows, a))


def get_rows(a: Node, rows: Node) -> Node:
    """Rows of `a`, as F32 (or I32 of an I32 tensor)."""
    n0, n1, n2, _ = rows.ne
    return new_node(Op.GET_ROWS, I32 if a.type.id == I32.id else F32, (a.ne[0], n0, n1, n2), (a, rows))


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


def flash_attn_ext(q: Node, k: Node, v: Node, mask: Node | None, sinks: Node | None = None) -> Node:
    """Fused attention; q, k, v permuted to [head size, tokens, heads, streams]."""
    srcs = (q, k, v) if mask is None else (q, k, v, mask)
    if sinks is not None:
        srcs = (*srcs, sinks)
    return new_node(Op.FLASH_ATTN_EXT, F32, (v.ne[0], q.ne[2], q.ne[1], q.ne[3]), srcs)


def ssm_conv(sx: Node, kernel: Node) -> Node:
    """Causal convolution; sx: [kernel - 1 + tokens, channels, sequences]."""
    return new_node(_OTHER, F32, (kernel.ne[1], sx.ne[0] - kernel.ne[0] + 1, sx.ne[2], 1), (sx, kernel))


def ssm_scan(srcs: tuple[Node, Node, Node, Node, Node, Node, Node], snapshots: int = 1) -> Node:
    """Selective scan of (state, x, dt, A, B, C, ids): outputs and new states in one row."""
    state, x, ids = srcs[0], srcs[1], srcs[6]
    n = x.elements + snapshots * state.ne[0] * state.ne[1] * state.ne[2] * ids.ne[0]
    return new_node(_OTHER, F32, (n, 1, 1, 1), srcs)


def gated_delta_net(srcs: tuple[Node, Node, Node, Node, Node, Node], snapshots: int = 1) -> Node:
    """Fused delta rule of (q, k, v, g, beta, state): outputs and new states."""
    size, heads, tokens, sequences = srcs[2].ne
    return new_node(
        Op.GATED_DELTA_NET, F32, (size * heads, tokens * sequences + snapshots * size * sequences, 1, 1), srcs
    )


def custom(ne: tuple[int, int, int, int], srcs: tuple[Node, ...], type_: TensorType = F32) -> Node:
    """Any other operation that gets memory of its own."""
    return new_node(_OTHER, type_, ne, srcs)


def _view(
    op: int, a: Node, ne: tuple[int, int, int, int], nb: tuple[int, int, int, int], srcs: tuple[Node, ...] | None = None
) -> Node:
    root = a if a.view is None else a.view
    return Node(op, a.type, ne, nb, 0, (a,) if srcs is None else srcs, root, root.buffer)


def view(a: Node, ne: tuple[int, ...], nb: tuple[int, ...] = ()) -> Node:
    """Part of `a`: `ne` elements per dimension, `nb` the strides of dimensions 1 and up (contiguous where left out).

    Offsets do not matter to memory and are not given.
    """
    rank = len(ne)
    steps = [a.type.block_bytes, *nb]
    for i in range(len(steps), 4):
        n = ne[i - 1] if i - 1 < rank else 1
        steps.append(steps[i - 1] * (n // a.type.block_elements if i == 1 else n))
    shape = (ne[0], ne[1] if rank > 1 else 1, ne[2] if rank > 2 else 1, ne[3] if rank > 3 else 1)
    return _view(Op.VIEW, a, shape, (steps[0], steps[1], steps[2], steps[3]))


def reshape(a: Node, ne0: int, ne1: int = 1, ne2: int = 1, ne3: int = 1) -> Node:
    """A contiguous tensor under another shape."""
    ne = (ne0, ne1, ne2, ne3)
    root = a if a.view is None else a.view
    return Node(Op.RESHAPE, a.type, ne, strides(a.type, ne)[0], 0, (a,), root, root.buffer)


def permute(a: Node, axis0: int, axis1: int, axis2: int, axis3: int) -> Node:
    """Dimension i of `a` becomes dimension axis_i."""
    ne, nb = [0] * 4, [0] * 4
    for i, axis in enumerate((axis0, axis1, axis2, axis3)):
        ne[axis] = a.ne[i]
        nb[axis] = a.nb[i]
    return _view(Op.PERMUTE, a, (ne[0], ne[1], ne[2], ne[3]), (nb[0], nb[1], nb[2], nb[3]))


def swap_12(a: Node) -> Node:
    """permute(a, 0, 2, 1, 3), by far the most frequent one."""
    n0, n1, n2, n3 = a.ne
    b0, b1, b2, b3 = a.nb
    root = a if a.view is None else a.view
    return Node(Op.PERMUTE, a.type, (n0, n2, n1, n3), (b0, b2, b1, b3), 0, (a,), root, root.buffer)


def transpose(a: Node) -> Node:
    """Dimensions 0 and 1 swapped."""
    n0, n1, n2, n3 = a.ne
    b0, b1, b2, b3 = a.nb
    return _view(Op.TRANSPOSE, a, (n1, n0, n2, n3), (b1, b0, b2, b3))
