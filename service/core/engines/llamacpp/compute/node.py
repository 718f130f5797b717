"""Nodes of a compute graph: what llama.cpp's allocator and scheduler look at, and nothing else.

A node is a ggml_tensor without data: shape, strides, sources, the tensor it is a view of, and where it lies if that is
settled. The classes here are mutable and plain because thousands of them are made for every plan.

Source: ggml_new_tensor_impl and ggml_nbytes, ggml/src/ggml.c:1298-1321, 1722-1790
(llama.cpp in llama-cpp-python 0.3.36).
"""

from __future__ import annotations

from typing import Final, TypeAlias

from service.core.tensor_types import TENSOR_TYPE_BY_NAME
from service.core.types import TensorType

Shape: TypeAlias = tuple[int, int, int, int]

F32: Final = TENSOR_TYPE_BY_NAME["f32"]
F16: Final = TENSOR_TYPE_BY_NAME["f16"]
I32: Final = TENSOR_TYPE_BY_NAME["i32"]
I64: Final = TENSOR_TYPE_BY_NAME["i64"]

# node flags: ggml_tensor_flag, and whether the node's buffer holds weights
INPUT: Final = 1
OUTPUT: Final = 2
WEIGHT: Final = 4

NOWHERE: Final = -1
"""Backend of a node that has none yet."""


class Op:
    """ggml's operations (enum ggml_op), as far as graphs use them.

    1 to 4 are views (ggml_is_view_op); up to LAST_INPLACE an operation may be computed into the memory of a source
    (ggml_op_can_inplace, ggml/src/ggml-alloc.c:22-51). OTHER is whatever nobody asks after.
    """

    NONE: Final = 0
    RESHAPE: Final = 1
    VIEW: Final = 2
    PERMUTE: Final = 3
    TRANSPOSE: Final = 4
    ADD: Final = 5
    ADD_ID: Final = 6
    CLAMP: Final = 7
    DIV: Final = 8
    FILL: Final = 9
    LOG: Final = 10
    MUL: Final = 11
    RMS_NORM: Final = 12
    ROPE: Final = 13
    SCALE: Final = 14
    SOFT_MAX: Final = 15
    SQR: Final = 16
    SQRT: Final = 17
    SUB: Final = 18
    UNARY: Final = 19
    LAST_INPLACE: Final = UNARY
    OTHER: Final = 20
    ARGSORT: Final = 21
    FLASH_ATTN_EXT: Final = 23
    GATED_DELTA_NET: Final = 24
    GET_ROWS: Final = 25
    LIGHTNING_INDEXER: Final = 26
    MUL_MAT: Final = 27
    MUL_MAT_ID: Final = 28
    NORM: Final = 29
    SET_ROWS: Final = 30
    SSM_CONV: Final = 32
    SSM_SCAN: Final = 33
    SUM_ROWS: Final = 34
    TOP_K: Final = 35


class Node:
    """One tensor of a graph.

    ne: elements per dimension; nb: strides in bytes; size: bytes of memory if it gets its own (0 for views); view: the
    tensor whose memory it shares, never itself a view.
    buffer: backend whose memory already holds it (weights, caches) or NOWHERE; place: backend that computes it.
    children, views: nodes yet to read it, and views of it yet to be read. owner: the piece of memory it is in, in
    owner_backend's buffer.
    """

    __slots__ = (
        "buffer",
        "children",
        "flags",
        "nb",
        "ne",
        "op",
        "owner",
        "owner_backend",
        "place",
        "seen",
        "size",
        "srcs",
        "type",
        "view",
        "views",
    )

    def __init__(  # noqa: PLR0917 - one call per tensor, by position, for speed
        self,
        op: int,
        type: TensorType,  # noqa: A002
        ne: Shape,
        nb: Shape,
        size: int,
        srcs: tuple[Node, ...],
        view: Node | None = None,
        buffer: int = NOWHERE,
        flags: int = 0,
    ) -> None:
        self.op = op
        self.type = type
        self.ne = ne
        self.nb = nb
        self.size = size
        self.srcs = srcs
        self.view = view
        self.buffer = buffer
        self.flags = flags
        self.place = NOWHERE
        self.seen = False
        self.children = 0
        self.views = 0
        self.owner = NOWHERE
        self.owner_backend = NOWHERE

    @property
    def elements(self) -> int:
        """Number of values."""
        n0, n1, n2, n3 = self.ne
        return n0 * n1 * n2 * n3

    @property
    def is_contiguous(self) -> bool:
        """Whether rows, matrices and so on follow each other without gaps, in order.

        Source: ggml_is_contiguous, ggml/src/ggml.c:1468-1504: dimensions of one element do not count.
        """
        step = self.type.block_bytes
        n0, n1, n2, n3 = self.ne
        s0, s1, s2, s3 = self.nb
        if n0 != self.type.block_elements and s0 != step:
            return False
        step *= n0 // self.type.block_elements
        for n, s in ((n1, s1), (n2, s2), (n3, s3)):
            if n != 1:
                if s != step:
                    return False
                step *= n
        return True


def strides(type_: TensorType, ne: Shape) -> tuple[Shape, int]:
    """Strides of a contiguous tensor and its bytes."""
    nb0 = type_.block_bytes
    nb1 = ne[0] // type_.block_elements * nb0
    nb2 = nb1 * ne[1]
    nb3 = nb2 * ne[2]
    return (nb0, nb1, nb2, nb3), nb3 * ne[3]


def extent_bytes(type_: TensorType, ne: Shape, nb: Shape) -> int:
    """Bytes from the first to behind the last element of a tensor of any strides (ggml_nbytes)."""
    if 0 in ne:
        return 0
    blocks = type_.block_elements
    first = type_.block_bytes + (ne[0] - 1) * nb[0] if blocks == 1 else ne[0] * nb[0] // blocks
    return first + (ne[1] - 1) * nb[1] + (ne[2] - 1) * nb[2] + (ne[3] - 1) * nb[3]


def new_node(op: int, type_: TensorType, ne: Shape, srcs: tuple[Node, ...]) -> Node:
    """A contiguous tensor with memory of its own."""
    nb, size = strides(type_, ne)
    return Node(op, type_, ne, nb, size, srcs)


def leaf(type_: TensorType, ne: Shape, *, buffer: int = NOWHERE, flags: int = 0) -> Node:
    """A tensor that no operation computes: an input, a weight or a cache."""
    nb, size = strides(type_, ne)
    node = Node(Op.NONE, type_, ne, nb, size, (), None, buffer, flags)
    if buffer != NOWHERE:
        node.place = buffer
    return node
