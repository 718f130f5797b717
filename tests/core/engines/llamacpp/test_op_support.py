"""Weights a backend can or cannot compute with."""

import pytest

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.op_support import supports_weight
from service.core.engines.llamacpp.tensor_kinds import WeightOp
from service.core.tensor_types import TENSOR_TYPE_BY_NAME
from service.core.types import Backend, Tensor
from tests.shapes import shape

LLAMA_SHAPE = shape("llama")


def supported(backend: Backend, op: WeightOp, type_name: str, *extents: int, hp: Hparams = LLAMA_SHAPE) -> bool:
    """Whether a backend takes a tensor of this type and shape."""
    tensor = Tensor(name="t", type=TENSOR_TYPE_BY_NAME[type_name], shape=extents, size_bytes=0)
    return supports_weight(backend, op, tensor, hp)


@pytest.mark.parametrize(
    ("backend", "op", "type_name", "expected"),
    [
        ("cuda", "mul_mat", "q4_K", True),
        ("cuda", "mul_mat", "tq1_0", False),
        ("cuda", "mul_mat", "nvfp4", True),
        ("cuda", "get_rows", "nvfp4", False),
        ("cuda", "mul", "bf16", False),
        ("cuda", "rope", "f32", True),
        ("rocm", "mul_mat_id", "mxfp4", True),
        ("vulkan", "mul_mat", "tq2_0", True),
        ("vulkan", "mul_mat", "i8", False),
        ("vulkan", "add_id", "f16", False),
        ("metal", "mul_mat", "nvfp4", False),
        ("metal", "mul_mat", "tq2_0", True),
        ("metal", "add", "f16", False),
        ("sycl", "mul_mat", "tq2_0", False),
        ("sycl", "get_rows", "q2_0", False),
        ("rpc", "mul_mat", "tq1_0", True),
        ("cpu", "get_rows", "tq1_0", True),
    ],
)
def test_types(backend: Backend, op: WeightOp, type_name: str, expected: bool) -> None:
    """Types each backend's kernels read, operation by operation."""
    assert supported(backend, op, type_name, 256, 256) is expected


def test_cuda_looks_up_rows_of_some_types_only_in_whole_super_blocks() -> None:
    """IQ4_NL rows must be a multiple of 256 elements."""
    assert supported("cuda", "get_rows", "iq4_nl", 512, 8)
    assert not supported("cuda", "get_rows", "iq4_nl", 1056, 8)


def test_cuda_convolves_channels_in_128s() -> None:
    """A short convolution over a number of channels that 128 does not divide stays on the host."""
    assert supported("cuda", "ssm_conv", "f32", 4, 1536)
    assert not supported("cuda", "ssm_conv", "f32", 4, 1500)


def test_selective_scans_have_kernels_for_certain_states() -> None:
    """Mamba-2 with a state of 128 scans everywhere, with 64 on the host; Mamba-1 on CUDA alone."""
    mamba2 = {"ssm__conv_kernel": 4, "ssm__inner_size": 2048, "ssm__time_step_rank": 32, "ssm__group_count": 1}
    usual = shape("mamba2", ssm__state_size=128, **mamba2)
    small = shape("mamba2", ssm__state_size=64, **mamba2)
    for backend in ("cuda", "vulkan", "sycl"):
        assert supported(backend, "ssm_scan", "f32", 1, 32, hp=usual)
        assert not supported(backend, "ssm_scan", "f32", 1, 32, hp=small)
    mamba1 = shape("mamba", ssm__state_size=16, ssm__conv_kernel=4, ssm__inner_size=2048, ssm__time_step_rank=64)
    assert supported("cuda", "ssm_scan", "f32", 16, 2048, hp=mamba1)
    assert not supported("vulkan", "ssm_scan", "f32", 16, 2048, hp=mamba1)
