"""Which tensors take memory, and when it is given back."""

from collections.abc import Sequence

from service.core.engines.llamacpp.compute.graph import Graph
from service.core.engines.llamacpp.compute.liveness import Lives, trace
from service.core.engines.llamacpp.compute.node import F32, INPUT, OUTPUT, Node, leaf
from service.core.engines.llamacpp.compute.ops import add, add_inplace, cont, mul_mat, norm, reshape, rms_norm, silu

ROW = 1024
"""Bytes of the tensors here."""


def tensor() -> Node:
    """An input of one row."""
    return leaf(F32, (ROW // 4, 1, 1, 1), flags=INPUT)


def lives_of(*results: Node) -> Lives:
    """A graph that ends in `results`, on one backend."""
    graph = Graph()
    for result in results:
        graph.expand(result)
    for node in (*graph.nodes, *graph.leafs):
        node.place = 0
    return trace(graph.leafs, graph.nodes, 1)


def taken(lives: Lives) -> list[int]:
    """Sizes in the order they are taken."""
    return [lives.sizes[event] for event in lives.events[0] if event >= 0]


def most_alive(lives: Lives) -> int:
    """The most pieces that live at once."""
    alive, most = 0, 0
    for event in lives.events[0]:
        alive += 1 if event >= 0 else -1
        most = max(most, alive)
    return most


def test_an_operation_may_overwrite_its_only_reader() -> None:
    """A chain of pointwise operations needs one piece of memory, and an input's is reused as well."""
    assert taken(lives_of(silu(rms_norm(silu(tensor()))))) == [ROW]


def test_a_norm_with_mean_needs_memory_of_its_own() -> None:
    """Not every operation of the same shape may be computed in place."""
    assert taken(lives_of(norm(tensor()))) == [ROW, ROW]


def test_what_is_read_again_is_not_overwritten() -> None:
    """A residual stays until it is added; then one of the two is overwritten."""
    residual = norm(tensor())
    lives = lives_of(add(silu(residual), residual))
    assert taken(lives) == [ROW, ROW, ROW]


def test_results_are_never_overwritten_nor_given_back() -> None:
    """What the caller reads later keeps its memory."""
    result = norm(tensor())
    result.flags |= OUTPUT
    lives = lives_of(silu(result))
    assert taken(lives) == [ROW, ROW, ROW]
    assert lives.events[0] == [0, 1, ~0, 2]


def test_another_shape_is_not_overwritten() -> None:
    """Only a source of the same layout can be taken over: of a row and four rows the latter."""
    wide = norm(leaf(F32, (ROW // 4, 4, 1, 1), flags=INPUT))
    lives = lives_of(add(wide, norm(tensor())))
    assert taken(lives) == [4 * ROW, ROW, 4 * ROW, ROW]
    assert lives.events[0][-1] == ~3


def test_a_view_keeps_what_it_looks_at_alive() -> None:
    """Memory lives until the last view of it is read, and is not overwritten through one."""
    source = norm(tensor())
    lives = lives_of(silu(reshape(source, ROW // 8, 2)))
    assert lives.events[0] == [0, 1, ~0, 2, ~1]


def test_writing_into_a_tensor_takes_no_memory() -> None:
    """An operation on a view of its destination has its memory already."""
    target, part = norm(tensor()), norm(tensor())
    lives = lives_of(cont(add_inplace(target, part)))
    assert taken(lives) == [ROW] * 5


def test_weights_take_no_memory() -> None:
    """What lies in another buffer is not allocated."""
    weight = leaf(F32, (ROW // 4, ROW // 4, 1, 1), buffer=0)
    assert taken(lives_of(mul_mat(weight, tensor()))) == [ROW, ROW]


def test_a_copy_is_made_before_its_source_is_given_back() -> None:
    """At the head of a split a source is released only after its copy has memory elsewhere."""
    source, copy = tensor(), tensor()
    source.place, copy.place = 0, 1
    source.children, copy.children = 1, 1
    reader = norm(copy)
    reader.place = 1
    steps: Sequence[Node | tuple[Node, Node]] = [(source, copy), reader]
    lives = trace([source], steps, 2)
    assert lives.events == [[0, ~0], [1, 2, ~1]]


def test_scratch_is_given_back_when_a_result_is_overwritten() -> None:
    """What a backend added behind a result is free as soon as another tensor takes the result over."""
    product = mul_mat(leaf(F32, (ROW // 4, ROW // 4, 1, 1), buffer=0), tensor())
    result = norm(silu(product))
    product.size += 512
    lives = lives_of(result)
    kept = next(iter(lives.remains))
    assert lives.remains == {kept: 1}
    assert [lives.sizes[piece] for piece in (1, kept)] == [ROW + 512, ROW]


def test_nothing_lives_longer_than_it_is_read() -> None:
    """Ten norms in a row never need more than two pieces."""
    cur = tensor()
    for _ in range(10):
        cur = norm(cur)
    assert most_alive(lives_of(cur)) == 2
