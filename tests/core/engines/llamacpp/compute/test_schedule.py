"""Which backend computes each operation, and what is copied."""

from collections.abc import Sequence

import pytest

from service.core.engines.llamacpp.compute.node import OUTPUT, Node, Op
from service.core.engines.llamacpp.compute.ops import add, get_rows, mul, mul_mat, mul_mat_id, reshape, rms_norm, silu
from service.core.engines.llamacpp.compute.schedule import Schedule, batch_rows, place_nodes, split
from service.core.types import Backend
from tests.core.engines.llamacpp.compute.small_graphs import (
    TOKENS,
    WIDTH,
    attention,
    choice,
    experts,
    graph_of,
    tokens,
    weight,
)

TWO: tuple[Backend, ...] = ("cuda", "cuda")


def scheduled(*results: Node, backends: Sequence[Backend] = TWO, copies: int = 1, op_offload: bool = True) -> Schedule:
    """The schedule of a graph that ends in `results`."""
    graph = graph_of(*results)
    place_nodes(graph, backends, op_offload=op_offload)
    return split(graph, copies, copies_weights=op_offload)


def places(schedule: Schedule) -> list[int]:
    """Backend of every split."""
    return [part.place for part in schedule.splits]


def test_operations_go_where_their_weights_are() -> None:
    """Two layers on two cards are two splits, and the hidden state crosses once."""
    first = silu(mul_mat(weight(0), tokens()))
    plan = scheduled(mul_mat(weight(1), first))
    assert places(plan) == [0, 1]
    assert [source for source, _ in plan.splits[1].copied] == [first]


def test_operations_without_weights_join_the_device_before_them() -> None:
    """Activations stay on the card that computed what they read."""
    cur = rms_norm(silu(mul_mat(weight(0), tokens())))
    scheduled(mul_mat(weight(1), cur))
    assert cur.place == 0


def test_operations_before_any_weight_join_the_device_behind_them() -> None:
    """The norm of the first block runs on the card of its first matrix."""
    normed = rms_norm(tokens())
    scheduled(mul_mat(weight(0), normed))
    assert normed.place == 0


def test_devices_are_preferred_to_the_host() -> None:
    """Between an operation of the host and one of a card the card's backend spreads."""
    looked_up = get_rows(weight(2), choice(1, 1))
    normed = rms_norm(looked_up)
    scheduled(mul_mat(weight(0), normed))
    assert (looked_up.place, normed.place) == (2, 0)


def test_rows_of_a_host_table_are_looked_up_on_the_host() -> None:
    """Look-ups are never handed to a device, however many rows there are."""
    looked_up = get_rows(weight(2), choice(TOKENS, 1))
    assert batch_rows(looked_up) == 0
    scheduled(mul_mat(weight(0), looked_up))
    assert looked_up.place == 2


@pytest.mark.parametrize(("n_tokens", "place"), [(31, 2), (32, 0), (512, 0)])
def test_large_batches_on_host_weights_run_on_the_first_device(n_tokens: int, place: int) -> None:
    """From 32 rows on, the first card computes with weights of the host."""
    product = mul_mat(weight(2), tokens(n_tokens))
    scheduled(product)
    assert product.place == place


def test_offload_can_be_switched_off() -> None:
    """With --no-op-offload the host computes with its weights."""
    product = mul_mat(weight(2), tokens())
    scheduled(product, op_offload=False)
    assert product.place == 2


def test_rpc_devices_take_nothing_over() -> None:
    """A remote card has no offload_op, a local one behind it has."""
    product = mul_mat(weight(2), tokens())
    scheduled(product, backends=("rpc", "vulkan"))
    assert product.place == 1
    product = mul_mat(weight(1), tokens())
    scheduled(product, backends=("rpc",))
    assert product.place == 1


def test_metal_takes_over_products_alone() -> None:
    """Metal computes matrix products with weights of the host, and leaves norms' weights to it."""
    product = mul_mat(weight(1), tokens())
    scaled = mul(product, weight(1, rows=1))
    scheduled(scaled, backends=("metal",))
    assert (product.place, scaled.place) == (0, 1)


def test_each_offloaded_weight_begins_a_split() -> None:
    """So that the memory of one expert matrix can be reused by the next."""
    ids = choice(2)
    cur = reshape(tokens(), WIDTH, 1, TOKENS)
    up, down = experts(1), experts(1)
    plan = scheduled(mul_mat_id(down, silu(mul_mat_id(up, cur, ids)), ids), backends=("cuda",))
    assert places(plan) == [0, 0]
    assert [[source for source, _ in part.copied if source in (up, down)] for part in plan.splits] == [[up], [down]]


def test_a_source_is_copied_once_for_all_readers() -> None:
    """Later readers in the same split, or in another on the same card, use the copy that is there."""
    shared = silu(mul_mat(weight(0), tokens()))
    plan = scheduled(add(mul_mat(weight(1), shared), shared))
    assert [len(part.copied) for part in plan.splits] == [1, 1]
    ((_, copy),) = plan.splits[1].copied
    assert (copy.children, shared.children) == (2, 1)


def test_inputs_lie_on_the_host_and_are_copied_to_their_readers() -> None:
    """A graph input is a leaf of the host."""
    cur = tokens()
    plan = scheduled(mul_mat(weight(0), cur))
    assert cur.place == 2
    assert [source for source, _ in plan.splits[0].copied] == [cur]


def test_pipelines_keep_four_copies_of_whatever_is_copied() -> None:
    """Inputs four times on the host and on every card that reads them, the hidden state four times where it arrives."""
    first = mul_mat(weight(0), tokens())
    plan = scheduled(mul_mat(weight(1), first), copies=4)
    assert sorted(copy.place for copy in plan.copies) == [0] * 4 + [1] * 4 + [2] * 4
    assert all(copy.flags & OUTPUT for copy in plan.copies)


def test_attention_with_kernels_stays_on_its_card() -> None:
    """Heads of 128 have kernels on CUDA."""
    cur = attention()
    scheduled(mul_mat(weight(0, rows=8), reshape(cur, WIDTH, 4 * TOKENS)), backends=("cuda",))
    assert cur.place == 0


def test_attention_without_kernels_runs_on_the_host() -> None:
    """Heads of 192 and 192 have none on CUDA; what is around it stays on the card."""
    cur = attention(head_k=192, head_v=192)
    plan = scheduled(mul_mat(weight(0, rows=8), reshape(cur, WIDTH, 6 * TOKENS)), backends=("cuda",))
    assert (cur.place, places(plan)) == (1, [1, 0])


def test_attention_without_kernels_runs_where_most_of_its_sources_are() -> None:
    """Vulkan could compute it as well, but Q and the mask lie on the host."""
    cur = attention(head_k=192, head_v=192)
    scheduled(mul_mat(weight(0, rows=8), reshape(cur, WIDTH, 6 * TOKENS)), backends=("cuda", "vulkan"))
    assert cur.place == 2


def test_views_are_no_splits() -> None:
    """A view at the border belongs to the split before it."""
    first = mul_mat(weight(0), tokens())
    seen = reshape(first, WIDTH * TOKENS)
    plan = scheduled(mul_mat(weight(1), reshape(seen, WIDTH, TOKENS)))
    assert [node.op for node in plan.splits[0].nodes] == [Op.MUL_MAT, Op.RESHAPE, Op.RESHAPE]
