"""The order in which Vulkan computes nodes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from service.core.engines.llamacpp.compute.node import F16, F32, I64, INPUT, Node, Op, leaf
from service.core.engines.llamacpp.compute.ops import (
    add,
    cont,
    mul,
    mul_mat,
    norm,
    reshape,
    rms_norm,
    rope,
    set_rows,
    sigmoid,
    silu,
    view,
)
from service.core.engines.llamacpp.compute.vulkan_order import vulkan_order
from tests.core.engines.llamacpp.compute.small_graphs import TOKENS, WIDTH, choice, graph_of, tokens, weight


def positions(*wanted: Node, results: tuple[Node, ...]) -> list[int]:
    """Where nodes come in the new order of a graph that ends in `results`."""
    order = vulkan_order(graph_of(*results).nodes)
    return [order.index(node) for node in wanted]


def test_independent_products_come_together() -> None:
    """Q, K and V are computed before anything is done with Q."""
    cur = tokens()
    q, k, v = (mul_mat(weight(0), cur) for _ in range(3))
    rotated = norm(q)
    assert positions(q, k, v, rotated, results=(rotated, k, v)) == [0, 1, 2, 3]


def test_what_depends_on_what_is_not_done_waits() -> None:
    """A chain keeps its order."""
    first = norm(tokens())
    second = norm(first)
    third = norm(second)
    assert positions(first, second, third, results=(third,)) == [0, 1, 2]


def test_a_norm_keeps_its_product_at_hand() -> None:
    """Both are one operation, although one reads the other."""
    normed = rms_norm(tokens())
    scaled = mul(normed, weight(0, rows=1))
    other = mul_mat(weight(0), tokens())
    assert positions(normed, scaled, other, results=(scaled, other)) == [0, 1, 2]


def test_a_bias_follows_its_product_at_once() -> None:
    """A product, its bias and the sum with what is done already are one operation."""
    residual = norm(tokens())
    normed = norm(residual)
    product = mul_mat(weight(0), normed)
    biased = add(product, weight(0, rows=1))
    total = add(biased, residual)
    other = norm(normed)
    assert positions(product, biased, total, other, results=(biased, other, total)) == [2, 3, 4, 5]


def test_an_activation_takes_its_product_along() -> None:
    """A gate is applied as soon as it is computed, if the other factor is there."""
    value = norm(tokens())
    gate = sigmoid(norm(tokens()))
    gated = mul(value, gate)
    other = norm(tokens())
    assert positions(gate, gated, other, results=(value, gate, other, gated)) == [3, 4, 2]


def test_rotated_keys_are_stored_at_once() -> None:
    """A rotation, its view and the store into the cache are one operation."""
    keys = rope(reshape(mul_mat(weight(0), tokens()), WIDTH, 1, TOKENS), choice(1, 1))
    rows = leaf(I64, (TOKENS, 1, 1, 1), flags=INPUT)
    cache = leaf(F16, (WIDTH, 4 * TOKENS, 1, 1), buffer=0)
    flat = view(keys, (WIDTH, TOKENS), (keys.nb[2],))
    other = mul_mat(weight(0), tokens())
    stored = set_rows(cache, flat, rows)
    at = positions(keys, flat, stored, results=(keys, other, stored))
    assert at == [at[0], at[0] + 1, at[0] + 2]


def test_readers_of_a_cache_stay_behind_its_writers() -> None:
    """Views of one tensor depend on each other."""
    cache = leaf(F32, (WIDTH, TOKENS, 1, 1), buffer=0)
    stored = set_rows(cache, norm(tokens()), leaf(I64, (TOKENS, 1, 1, 1), flags=INPUT))
    read = cont(view(cache, (WIDTH, TOKENS)))
    before, after = positions(stored, read, results=(stored, read))
    assert before < after


@settings(max_examples=50)
@given(st.data())
def test_every_node_comes_once_and_behind_its_sources(data: st.DataObject) -> None:
    """Whatever the graph, the order is one of its topological orders."""
    made: list[Node] = [tokens()]
    for _ in range(data.draw(st.integers(1, 30))):
        a, b = (data.draw(st.sampled_from(made)) for _ in range(2))
        made.append(
            data.draw(
                st.sampled_from(
                    (
                        lambda a=a: norm(a),
                        lambda a=a: rms_norm(a),
                        lambda a=a: silu(a),
                        lambda a=a: reshape(cont(a), WIDTH, TOKENS),
                        lambda a=a, b=b: add(a, b),
                        lambda a=a, b=b: mul(a, b),
                        lambda a=a: mul_mat(weight(0), a),
                    )
                )
            )()
        )
    nodes = graph_of(*made).nodes
    order = vulkan_order(nodes)
    place = {node: i for i, node in enumerate(order)}
    assert sorted(map(id, order)) == sorted(map(id, nodes))
    assert all(place[src] < place[node] for node in order for src in node.srcs if src.op != Op.NONE)
