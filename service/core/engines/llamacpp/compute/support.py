"""Operations that backends compute only for some shapes and types; what a device cannot compute, the host does.

Source: supports_op of each backend (ggml 0.25.3 in llama-cpp-python 0.3.36): ggml/src/ggml-cuda/ggml-cuda.cu:5149-5630,
ggml-cuda/lightning-indexer.cu:536-589, ggml-vulkan/ggml-vulkan.cpp:15300-15960, ggml-metal/ggml-metal-device.m:
1540-1959, ggml-sycl/ggml-sycl.cpp:6469-6840. Limits of a driver or a card's memory are not known here.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from service.core.engines.llamacpp.cache_types import CacheTypes
from service.core.engines.llamacpp.compute.node import F16, Node, Op
from service.core.engines.llamacpp.flash_kernels import FLASH_KERNELS
from service.core.types import Backend

_CACHE_TYPES = frozenset(("f32", "f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0"))


def _attention(backend: Backend) -> Callable[[Node], bool]:
    kernels = FLASH_KERNELS[backend]

    def computes(node: Node) -> bool:
        q, k, v = node.srcs[:3]
        types = CacheTypes(k=k.type, v=v.type)
        return kernels.take_types(types) and kernels.take_heads(k.ne[0], v.ne[0], q.ne[2] // k.ne[2])

    return computes


def _indexer(heads: frozenset[int] | None, types: frozenset[str] = _CACHE_TYPES) -> Callable[[Node], bool]:
    """Heads of 128 elements, as many as `heads` names (any number where it is None)."""

    def computes(node: Node) -> bool:
        q, keys = node.srcs[:2]
        return q.ne[0] == 128 and (heads is None or q.ne[1] in heads) and keys.type.name in types

    return computes


def _scan(states: frozenset[int], head_multiple: int, *, first_kind: bool) -> Callable[[Node], bool]:
    """Mamba-2 with so many states; `first_kind`: also Mamba-1, of 16 states and channels in 128s."""

    def computes(node: Node) -> bool:
        state, decay, b = node.srcs[0], node.srcs[3], node.srcs[4]
        if decay.ne[0] == 1:
            return state.ne[0] in states and state.ne[1] % head_multiple == 0
        return first_kind and state.ne[:2] == (16, 1) and state.ne[2] % 128 == 0 and b.ne[1] == 1

    return computes


def _is_permuted(node: Node) -> bool:
    return not node.nb[0] <= node.nb[1] <= node.nb[2] <= node.nb[3]


def _sycl_product(node: Node) -> bool:
    """All but two shapes of F16 products over several heads and streams, which oneDNN gets wrong."""
    a, b = node.srcs[:2]
    if a.type is not F16:
        return True
    if _is_permuted(a):
        return a.ne[2] == 1 or a.ne[3] == 1 or a.is_contiguous
    return not (_is_permuted(b) and b.ne[2] > 1 and b.ne[3] > 1 and a.ne[0] > 128 and a.ne[2] == 1)


_CUDA: Final[Mapping[int, Callable[[Node], bool]]] = {
    Op.FLASH_ATTN_EXT: _attention("cuda"),
    Op.LIGHTNING_INDEXER: _indexer(frozenset((32, 64))),
    Op.SSM_CONV: lambda node: node.srcs[0].ne[1] % 128 == 0,
    Op.SSM_SCAN: _scan(frozenset((96, 128, 256)), 16, first_kind=True),
}

LIMITED: Final[Mapping[Backend, Mapping[int, Callable[[Node], bool]]]] = MappingProxyType(
    {
        "cuda": _CUDA,
        "rocm": _CUDA,
        "vulkan": {
            Op.FLASH_ATTN_EXT: _attention("vulkan"),
            Op.GATED_DELTA_NET: lambda node: node.srcs[2].ne[0] in (16, 32, 64, 128),
            Op.LIGHTNING_INDEXER: _indexer(None, _CACHE_TYPES | {"iq4_nl"}),
            Op.SSM_SCAN: _scan(frozenset((128, 256)), 16, first_kind=False),
        },
        "metal": {
            Op.FLASH_ATTN_EXT: _attention("metal"),
            Op.GATED_DELTA_NET: lambda node: node.srcs[2].ne[0] % 32 == 0,
            Op.LIGHTNING_INDEXER: _indexer(frozenset((64,))),
        },
        "sycl": {
            Op.FLASH_ATTN_EXT: _attention("sycl"),
            Op.LIGHTNING_INDEXER: _indexer(None, _CACHE_TYPES | {"iq4_nl"}),
            Op.MUL_MAT: _sycl_product,
            Op.SSM_SCAN: _scan(frozenset((128, 256)), 32, first_kind=False),
        },
    }
)
"""For which nodes a backend computes an operation; it computes all of those that are not listed."""

_LIMITED_ANYWHERE: Final = frozenset(op for table in LIMITED.values() for op in table)

Unable = Mapping[Node, frozenset[int]]


def unable_backends(nodes: Sequence[Node], backends: Sequence[Backend]) -> Unable:
    """Devices that cannot compute a node, for the nodes of which there are any."""
    tables = [LIMITED.get(backend) for backend in backends]
    if not any(tables):
        return {}
    unable: dict[Node, frozenset[int]] = {}
    for node in nodes:
        if node.op in _LIMITED_ANYWHERE:
            lacking = frozenset(
                device
                for device, table in enumerate(tables)
                if table is not None and node.op in table and not table[node.op](node)
            )
            if lacking:
                unable[node] = lacking
    return unable
