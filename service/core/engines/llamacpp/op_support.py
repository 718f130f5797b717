"""Which weights a backend can compute with; the others stay in host memory, whatever -ngl says."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.tensor_kinds import WeightOp
from service.core.tensor_types import TENSOR_TYPES
from service.core.types import Backend, Tensor

_ALL = frozenset(tensor_type.name for tensor_type in TENSOR_TYPES.values())
_F32 = frozenset({"f32"})
_FLOATS = frozenset({"f32", "f16"})
_TERNARY = frozenset({"tq1_0", "tq2_0"})
_K_QUANTS = frozenset({"q2_K", "q3_K", "q4_K", "q5_K", "q6_K"})
_I_QUANTS = frozenset({"iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "iq4_xs", "iq4_nl", "mxfp4"})
_LEGACY = frozenset({"bf16", "q1_0", "q2_0", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0"})
_STORED = _FLOATS | _LEGACY | _K_QUANTS | _I_QUANTS
_CUDA_TYPES: Mapping[WeightOp, frozenset[str]] = {
    "add": _FLOATS,
    "div": _FLOATS,
    "get_rows": _STORED | {"i32"},
    "mul": _FLOATS,
    "mul_mat": _STORED | {"nvfp4", "q8_K"},
    "mul_mat_id": _STORED | {"nvfp4", "q8_K"},
    "scale": frozenset({"f32", "bf16"}),
}

_TYPES: Final[Mapping[Backend, Mapping[WeightOp, frozenset[str]]]] = MappingProxyType(
    {
        "cpu": {},
        "rpc": {},
        "cuda": _CUDA_TYPES,
        "rocm": _CUDA_TYPES,
        "vulkan": {
            "add": _FLOATS,
            "add_id": _F32,
            "div": _FLOATS,
            "get_rows": _STORED | _TERNARY | {"nvfp4", "i32"},
            "mul": _FLOATS,
            "mul_mat": _STORED | _TERNARY | {"nvfp4"},
            "mul_mat_id": _STORED | _TERNARY | {"nvfp4"},
            "scale": _F32,
        },
        "metal": {
            "add": _F32,
            "add_id": _F32,
            "div": _F32,
            "get_rows": _ALL - {"nvfp4", "tq1_0"},
            "mul": _F32,
            "mul_mat": _ALL - {"nvfp4", "tq1_0"},
            "mul_mat_id": _ALL - {"nvfp4", "tq1_0"},
            "scale": _FLOATS,
        },
        "sycl": {
            "get_rows": (_STORED - {"q2_0"}) | {"nvfp4", "i32"},
            "mul_mat": _ALL - _TERNARY,
            "mul_mat_id": _ALL - _TERNARY,
            "ssm_conv": _F32,
        },
    }
)
"""Types a weight may have to be used by an operation, by backend; an operation without an entry takes any type.

The host computes everything; an RPC server is never asked. Vulkan also refuses tensors beyond the driver's largest
buffer, which no request states; Metal is taken to know bfloat16.

Source, llama.cpp in llama-cpp-python 0.3.36: ggml/src/ggml-cuda/ggml-cuda.cu:5149-5640,
ggml-vulkan/ggml-vulkan.cpp:15300-15960, ggml-metal/ggml-metal-device.m:1513-1959, ggml-sycl/ggml-sycl.cpp:6469-6827,
ggml-rpc/ggml-rpc.cpp (supports_op returns true).
"""


def _whole_super_blocks(tensor: Tensor, _hp: Hparams) -> bool:
    """Rows that CUDA's get_rows reads in pieces of 256 must be whole pieces."""
    return tensor.type.name not in ("iq4_nl", "mxfp4") or tensor.shape[0] % 256 == 0


def _channels_in_128s(tensor: Tensor, _hp: Hparams) -> bool:
    return len(tensor.shape) > 1 and tensor.shape[1] % 128 == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scan:
    """Shape of a selective scan; Mamba-2 has one decay per head, Mamba-1 one per state and channel."""

    mamba2: bool
    d_state: int
    head_dim: int
    n_head: int


def _scan(tensor: Tensor, hp: Hparams) -> _Scan:
    """Source: the probe of src/llama-model-loader.cpp:1001-1018 (llama.cpp in llama-cpp-python 0.3.36)."""
    ne0, n_head = tensor.shape[0], tensor.shape[1] if len(tensor.shape) > 1 else 1
    d_state = hp.ssm_d_state if ne0 == 1 else ne0
    return _Scan(mamba2=ne0 == 1, d_state=d_state, head_dim=hp.ssm_d_inner // n_head, n_head=n_head)


def _cuda_scan(tensor: Tensor, hp: Hparams) -> bool:
    scan = _scan(tensor, hp)
    if scan.mamba2:
        return scan.d_state in (96, 128, 256) and scan.head_dim % 16 == 0
    return scan.d_state == 16 and scan.head_dim == 1 and scan.n_head % 128 == 0 and (hp.ssm_n_group or 1) == 1


def _vulkan_scan(tensor: Tensor, hp: Hparams) -> bool:
    scan = _scan(tensor, hp)
    return scan.mamba2 and scan.d_state in (128, 256) and scan.head_dim % 16 == 0


def _sycl_scan(tensor: Tensor, hp: Hparams) -> bool:
    scan = _scan(tensor, hp)
    return scan.mamba2 and scan.d_state in (128, 256) and scan.head_dim % 32 == 0


_SHAPES: Final[Mapping[tuple[Backend, WeightOp], Callable[[Tensor, Hparams], bool]]] = MappingProxyType(
    {
        ("cuda", "get_rows"): _whole_super_blocks,
        ("cuda", "ssm_conv"): _channels_in_128s,
        ("cuda", "ssm_scan"): _cuda_scan,
        ("rocm", "get_rows"): _whole_super_blocks,
        ("rocm", "ssm_conv"): _channels_in_128s,
        ("rocm", "ssm_scan"): _cuda_scan,
        ("vulkan", "ssm_scan"): _vulkan_scan,
        ("sycl", "ssm_scan"): _sycl_scan,
    }
)


def supports_weight(backend: Backend, op: WeightOp, tensor: Tensor, hp: Hparams) -> bool:
    """Whether `backend` can hold a weight that takes part in `op`, by its type and shape.

    Source: weight_buft_supported, src/llama-model-loader.cpp:927-1064 (llama.cpp in llama-cpp-python 0.3.36).
    """
    types = _TYPES[backend].get(op)
    shape = _SHAPES.get((backend, op))
    return (types is None or tensor.type.name in types) and (shape is None or shape(tensor, hp))
