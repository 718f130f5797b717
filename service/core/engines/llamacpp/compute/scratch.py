"""Memory that a backend adds behind an operation's result, for its own use while it computes.

Source: get_alloc_size of each backend's buffer type (ggml 0.25.3 in llama-cpp-python 0.3.36):
ggml/src/ggml-cuda/ggml-cuda.cu:903-919 with fattn.cu:525-756 and fattn-common.cuh:53-85;
ggml-metal/ggml-metal.cpp:221-258 with ggml-metal-ops.cpp:2650-2674, 2960-3229; ggml-sycl/ggml-sycl.cpp:1049-1065 with
fattn.cpp:396-457 and fattn-onednn.cpp:28-113. Vulkan and the CPU add nothing, nor does an RPC server on a CPU.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

from service.core.engines.llamacpp.compute.node import F16, Node, Op
from service.core.engines.llamacpp.versions import Rule
from service.core.types import Backend
from service.core.units import pad

ScratchRule: TypeAlias = Callable[[Node, frozenset[Rule]], int]

_CUDA_ALIGNMENT: Final = 128
_CUDA_VECTOR_ROWS: Final = 2
_CUDA_VECTOR_HEADS: Final = frozenset((64, 128, 256))
_CUDA_VECTOR_TYPES: Final = frozenset(("f16", "bf16", "q4_0", "q8_0"))

_METAL_CELLS: Final = 64
_METAL_QUERIES: Final = 8
_METAL_VECTOR_CELLS: Final = 32
_METAL_VECTOR_ROWS: Final = 20
_METAL_WORK_GROUPS: Final = 32
_METAL_ROWS_TO_CONVERT: Final = 32
_METAL_PART_SCALES: Final = 256


def _in_f16(node: Node, alignment: int) -> int:
    """Bytes of `node` converted to F16."""
    return pad(2 * node.elements, alignment)


def _is_part_of_k(k: Node, v: Node) -> bool:
    """Whether V lies in K's memory, as in latent attention."""
    return v.view is not None and v.view is k.view


def _cuda_vector_kernel(q: Node, k: Node, v: Node) -> bool:
    """Whether the kernel for single tokens computes it, which reads the cache types it was built for as they are.

    The default build has those of equal K and V types (GGML_CUDA_FA_QUANTS).
    """
    return (
        q.ne[1] <= _CUDA_VECTOR_ROWS
        and q.ne[0] in _CUDA_VECTOR_HEADS
        and k.type is v.type
        and k.type.name in _CUDA_VECTOR_TYPES
    )


def _cuda_attention(node: Node, rules: frozenset[Rule]) -> int:
    """Copies of K and V in F16, which all kernels for prompts want; earlier they came from a pool."""
    q, k, v = node.srcs[:3]
    if "attention_scratch_in_graph" not in rules or _cuda_vector_kernel(q, k, v):
        return 0
    copy_of_k = 0 if k.type is F16 else _in_f16(k, _CUDA_ALIGNMENT)
    return copy_of_k if v.type is F16 or _is_part_of_k(k, v) else copy_of_k + _in_f16(v, _CUDA_ALIGNMENT)


def _sycl_attention(node: Node, rules: frozenset[Rule]) -> int:
    """The same; where oneDNN's kernel could compute it, Q and the result in F16 as well, and a scale."""
    q, k, v = node.srcs[:3]
    if "metal_attention_scratch" not in rules:
        return 0
    with_mask_alone = len(node.srcs) == 4 and node.srcs[3].ne[3] == 1
    fused = with_mask_alone and k.ne[0] == v.ne[0] and q.ne[3] == 1 and "bf16" not in (k.type.name, v.type.name)
    size = 0 if k.type is F16 else _in_f16(k, _CUDA_ALIGNMENT)
    if v.type is not F16 and (fused or not _is_part_of_k(k, v)):
        size += _in_f16(v, _CUDA_ALIGNMENT)
    return size + 2 * _in_f16(q, _CUDA_ALIGNMENT) + _CUDA_ALIGNMENT if fused else size


def _metal_attention(node: Node, rules: frozenset[Rule]) -> int:
    """Ends of K, V and mask, which parts of the mask are empty, partial results, and F16 copies of any K and V."""
    q, k, v = node.srcs[:3]
    copies = "metal_attention_scratch" in rules
    shared = _is_part_of_k(k, v)
    k_row, v_row = k.nb[1], v.nb[1]
    if copies and q.ne[1] >= _METAL_ROWS_TO_CONVERT and k.type.block_elements > 1:
        k_row, v_row = 2 * k.ne[0], 2 * (k if shared else v).ne[0]
    size = _METAL_CELLS * (k_row * k.ne[2] * k.ne[3] + v_row * v.ne[2] * v.ne[3])
    if len(node.srcs) > 3:
        mask = node.srcs[3]
        planes = mask.ne[2] * mask.ne[3]
        vector = q.ne[1] < _METAL_VECTOR_ROWS and q.ne[0] % 32 == 0
        queries, cells = (1, _METAL_VECTOR_CELLS) if vector else (_METAL_QUERIES, _METAL_CELLS)
        size += _METAL_CELLS * 2 * mask.ne[1] * planes
        size += pad(-(-q.ne[1] // queries) * -(-mask.ne[0] // cells) * planes, 32)
    size += 4 * min(q.ne[1], 32) * q.ne[2] * q.ne[3] * _METAL_WORK_GROUPS * (v.ne[0] + 2)
    if copies:
        size += _in_f16(k, 16) + (0 if shared else _in_f16(v, 16))
    return size


def _metal_experts(node: Node, _rules: frozenset[Rule]) -> int:
    """Tokens per expert, their indices, and scales."""
    experts, ids = node.srcs[0].ne[2], node.srcs[2]
    return 4 * experts + 4 * experts * ids.ne[1] + 8 + 4 * _METAL_PART_SCALES


def _metal_twice(node: Node, _rules: frozenset[Rule]) -> int:
    return node.size


def _metal_top_k(node: Node, _rules: frozenset[Rule]) -> int:
    """Two indices for every element that is sorted, in place of the result."""
    return 8 * node.srcs[0].elements - node.size


SCRATCH: Final[Mapping[Backend, Mapping[int, ScratchRule]]] = MappingProxyType(
    {
        "cuda": {Op.FLASH_ATTN_EXT: _cuda_attention},
        "rocm": {Op.FLASH_ATTN_EXT: _cuda_attention},
        "sycl": {Op.FLASH_ATTN_EXT: _sycl_attention},
        "metal": {
            Op.FLASH_ATTN_EXT: _metal_attention,
            Op.MUL_MAT_ID: _metal_experts,
            Op.ARGSORT: _metal_twice,
            Op.TOP_K: _metal_top_k,
        },
    }
)
"""What is added, by backend and operation; nothing where there is no entry."""


def add_scratch(nodes: Sequence[Node], backends: Sequence[Backend], rules: frozenset[Rule]) -> None:
    """Enlarge the results of operations by what the backends that compute them add."""
    tables = [SCRATCH.get(backend) for backend in backends]
    if not any(tables):
        return
    for node in nodes:
        if node.op > Op.OTHER and node.place < len(tables):
            table = tables[node.place]
            rule = table.get(node.op) if table else None
            if rule is not None and node.view is None:
                node.size += rule(node, rules)
