"""What backends add behind the results of operations."""

import pytest

from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import argsort, mul_mat, mul_mat_id, reshape, top_k
from service.core.engines.llamacpp.compute.scratch import add_scratch
from service.core.engines.llamacpp.versions import CHANGES, Rule
from service.core.tensor_types import TENSOR_TYPE_BY_NAME
from service.core.types import Backend
from service.core.units import MIB
from tests.core.engines.llamacpp.compute.small_graphs import (
    TOKENS,
    WIDTH,
    attention,
    choice,
    experts,
    latent_attention,
    tokens,
    weight,
)

Q8_0 = TENSOR_TYPE_BY_NAME["q8_0"]
BF16 = TENSOR_TYPE_BY_NAME["bf16"]
NEWEST = frozenset(change.rule for change in CHANGES)
CELLS = 8192


def added(node: Node, backend: Backend, rules: frozenset[Rule] = NEWEST) -> int:
    """Bytes that `backend` adds to a node's result."""
    node.place = 0
    before = node.size
    add_scratch([node], [backend], rules)
    return node.size - before


@pytest.mark.parametrize("backend", ["cuda", "rocm"])
def test_quantised_caches_are_copied_to_f16(backend: Backend) -> None:
    """8 KV heads of 128 over 8192 cells in q8_0: 16 MiB each for K and V."""
    assert added(attention(type_k=Q8_0, type_v=Q8_0, heads=32, heads_kv=8, cells=CELLS), backend) == 32 * MIB


def test_only_what_is_not_f16_is_copied() -> None:
    """A q8_0 K beside an F16 V costs half, bf16 as much as q8_0, F16 nothing."""
    assert added(attention(type_k=Q8_0, heads=32, heads_kv=8, cells=CELLS), "cuda") == 16 * MIB
    assert added(attention(type_k=BF16, type_v=BF16, heads=32, heads_kv=8, cells=CELLS), "cuda") == 32 * MIB
    assert added(attention(), "cuda") == 0


def test_single_tokens_read_quantised_caches_as_they_are() -> None:
    """The vector kernel needs no copies for the pairs of types it is built for."""
    assert added(attention(type_k=Q8_0, type_v=Q8_0, n_tokens=1), "cuda") == 0
    assert added(attention(type_k=Q8_0, n_tokens=1), "cuda") > 0


def test_latent_attention_copies_k_alone() -> None:
    """V is a part of K."""
    assert added(latent_attention(Q8_0, cells=CELLS), "cuda") == 2 * 576 * CELLS


def test_earlier_llamacpp_took_the_copies_from_a_pool() -> None:
    """Before pull request 23907 the compute buffer did not know of them."""
    node = attention(type_k=Q8_0, type_v=Q8_0, heads=32, heads_kv=8, cells=CELLS)
    assert added(node, "cuda", NEWEST - {"attention_scratch_in_graph"}) == 0


def test_vulkan_and_rpc_add_nothing() -> None:
    """Vulkan reads caches as they are; an RPC server on a CPU as well."""
    others: tuple[Backend, ...] = ("vulkan", "rpc")
    assert [added(attention(type_k=Q8_0, type_v=Q8_0), backend) for backend in others] == [0, 0]


def test_metal_reserves_copies_of_f16_caches_too() -> None:
    """Padding for 64 cells of K, V and mask, 1 byte per 8 rows and 64 cells, partial results, and 32 MiB of copies."""
    node = attention(heads=32, heads_kv=8, n_tokens=512, cells=CELLS)
    padding = 64 * (2 * 1024 * 2 * 8 + 2 * 512)
    blocks = 64 * 128
    partial = 4 * 32 * 32 * 32 * (128 + 2)
    assert added(node, "metal") == padding + blocks + partial + 32 * MIB


def test_metal_reserved_no_copies_before_august_2026() -> None:
    """Pull request 27390 brought them."""
    older = NEWEST - {"metal_attention_scratch"}
    node, same = (attention(heads=32, heads_kv=8, n_tokens=512, cells=CELLS) for _ in range(2))
    assert added(node, "metal") - added(same, "metal", older) == 32 * MIB


def test_sycl_stages_q_and_result_for_onednn() -> None:
    """F16 caches are bound in place; Q and the result are converted."""
    assert added(attention(heads=32, heads_kv=8), "sycl") == 2 * 2 * 128 * 32 * TOKENS + 128


def test_metal_sorts_in_scratch() -> None:
    """Twice the result for sorting, two indices per element for a choice of the largest."""
    scores = tokens()
    assert added(argsort(scores), "metal") == 4 * WIDTH * TOKENS
    chosen = top_k(scores, 8)
    assert added(chosen, "metal") + 4 * 8 * TOKENS == 8 * WIDTH * TOKENS


def test_metal_lists_the_tokens_of_every_expert() -> None:
    """A count and every token's index per expert, and 258 scales."""
    product = mul_mat_id(experts(0, n_experts=8), reshape(tokens(), WIDTH, 1, TOKENS), choice(2))
    assert added(product, "metal") == 4 * 8 + 4 * 8 * TOKENS + 8 + 4 * 256


def test_other_operations_get_nothing() -> None:
    """A product is as large as its result."""
    assert added(mul_mat(weight(0), tokens()), "metal") == 0


def test_nodes_of_the_host_get_nothing() -> None:
    """The host's buffer holds results alone."""
    node = attention(type_k=Q8_0, type_v=Q8_0)
    node.place, before = 1, node.size
    add_scratch([node], ["cuda"], NEWEST)
    assert node.size == before
