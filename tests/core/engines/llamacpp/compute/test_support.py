"""Operations that backends compute only for some shapes and types."""

import pytest

from service.core.engines.llamacpp.compute.node import F16, F32, I32, Node, leaf
from service.core.engines.llamacpp.compute.ops import (
    gated_delta_net,
    lightning_indexer,
    mul_mat,
    silu,
    ssm_conv,
    ssm_scan,
    swap_12,
)
from service.core.engines.llamacpp.compute.support import unable_backends
from service.core.tensor_types import TENSOR_TYPE_BY_NAME
from service.core.types import Backend
from tests.core.engines.llamacpp.compute.small_graphs import attention, latent_attention, tokens

ALL: tuple[Backend, ...] = ("cuda", "rocm", "vulkan", "metal", "sycl", "rpc")
Q4_0 = TENSOR_TYPE_BY_NAME["q4_0"]


def able(node: Node) -> set[Backend]:
    """Backends that compute a node."""
    unable = unable_backends([node], ALL).get(node, frozenset())
    return {backend for device, backend in enumerate(ALL) if device not in unable}


def data(*ne: int) -> Node:
    """Values of a shape."""
    shape = (*ne, 1, 1, 1)
    return leaf(F32, (shape[0], shape[1], shape[2], shape[3]))


@pytest.mark.parametrize(
    ("heads", "backends"),
    [
        ((128, 128), set(ALL)),
        ((192, 128), {"vulkan", "metal", "rpc"}),
        ((512, 512), set(ALL)),
        ((32, 32), {"vulkan", "metal", "rpc"}),
        ((100, 100), {"rpc"}),
    ],
)
def test_attention_needs_kernels_for_its_heads(heads: tuple[int, int], backends: set[Backend]) -> None:
    """CUDA and SYCL have some sizes, Metal others, Vulkan all multiples of 8."""
    assert able(attention(head_k=heads[0], head_v=heads[1])) == backends


def test_attention_needs_kernels_for_its_types() -> None:
    """Metal and SYCL want K and V alike."""
    assert able(attention(type_k=Q4_0)) == {"cuda", "rocm", "vulkan", "rpc"}


def test_latent_attention_has_kernels_everywhere() -> None:
    """576 elements of K, 512 of V, 16 queries to a head."""
    assert able(latent_attention(F16)) == set(ALL)


@pytest.mark.parametrize(
    ("size", "backends"), [(128, set(ALL)), (96, set(ALL) - {"vulkan"}), (80, {"cuda", "rocm", "sycl", "rpc"})]
)
def test_delta_rule_needs_heads_of_some_sizes(size: int, backends: set[Backend]) -> None:
    """Vulkan has 16 to 128 in powers of two, Metal multiples of 32."""
    head = data(size, 4, 16)
    assert able(gated_delta_net((head, head, head, data(1, 4, 16), data(1, 4, 16), data(size, size, 4)))) == backends


@pytest.mark.parametrize(
    ("heads", "backends"), [(64, set(ALL)), (32, set(ALL) - {"metal"}), (16, {"vulkan", "sycl", "rpc"})]
)
def test_indexer_needs_as_many_heads_as_kernels_have(heads: int, backends: set[Backend]) -> None:
    """CUDA has kernels for 32 and 64 heads, Metal for 64."""
    keys, mask = leaf(F16, (128, 1, 512, 1)), leaf(F16, (512, 16, 1, 1))
    assert able(lightning_indexer(data(128, heads, 16), keys, data(heads, 16), mask)) == backends


@pytest.mark.parametrize(
    ("d_state", "head", "backends"),
    [
        (128, 64, set(ALL)),
        (96, 64, {"cuda", "rocm", "metal", "rpc"}),
        (128, 16, set(ALL) - {"sycl"}),
        (64, 64, {"metal", "rpc"}),
    ],
)
def test_mamba_2_needs_states_of_some_sizes(d_state: int, head: int, backends: set[Backend]) -> None:
    """CUDA has 96, 128 and 256 states, Vulkan and SYCL 128 and 256."""
    assert able(scan(data(d_state, head, 8), data(1, 8))) == backends


def test_mamba_1_runs_on_cuda_and_metal_alone() -> None:
    """16 states of 128 channels each; Vulkan and SYCL have no kernel."""
    assert able(scan(data(16, 1, 128), data(16, 128))) == {"cuda", "rocm", "metal", "rpc"}


def scan(state: Node, decay: Node) -> Node:
    """A selective scan over 4 tokens."""
    b = data(state.ne[0], 1, 4)
    return ssm_scan(
        (state, data(state.ne[1], state.ne[2], 4), data(state.ne[2], 4), decay, b, b, leaf(I32, (1, 1, 1, 1)))
    )


def test_convolutions_of_cuda_take_channels_in_128s() -> None:
    """Odd numbers of channels go to the host."""
    assert able(ssm_conv(data(7, 256), data(4, 256))) == set(ALL)
    assert able(ssm_conv(data(7, 200), data(4, 200))) == set(ALL) - {"cuda", "rocm"}


def test_products_over_heads_and_streams_leave_sycl() -> None:
    """A permuted F16 cache of several heads and streams is not multiplied by oneDNN."""
    keys = swap_12(leaf(F16, (64, 2, 256, 4)))
    assert able(mul_mat(keys, data(64, 16, 2, 4))) == set(ALL) - {"sycl"}
    assert able(mul_mat(swap_12(leaf(F16, (64, 2, 256, 1))), data(64, 16, 2))) == set(ALL)


def test_everything_else_is_computed_everywhere() -> None:
    """Activations and products of plain matrices have no limits."""
    assert able(silu(tokens())) == set(ALL)
    assert able(mul_mat(data(64, 64), data(64, 4))) == set(ALL)
