"""Tensors in the memory of others.

Source: ggml/src/ggml.c:2006-6500 (llama.cpp in llama-cpp-python 0.3.36, ggml 0.25.3).
"""

from service.core.engines.llamacpp.compute.node import Node, Op, Shape, strides


def new_view(op: int, a: Node, ne: Shape, nb: Shape, srcs: tuple[Node, ...] | None = None) -> Node:
    """A tensor of its own shape in `a`'s memory."""
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
    return new_view(Op.VIEW, a, shape, (steps[0], steps[1], steps[2], steps[3]))


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
    return new_view(Op.PERMUTE, a, (ne[0], ne[1], ne[2], ne[3]), (nb[0], nb[1], nb[2], nb[3]))


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
    return new_view(Op.TRANSPOSE, a, (n1, n0, n2, n3), (b1, b0, b2, b3))
