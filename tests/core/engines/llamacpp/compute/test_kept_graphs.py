"""How graphs are described to whoever keeps them."""

import json
from dataclasses import fields, replace
from typing import Any, cast

import pytest

from service.core.engines.llamacpp.compute.graph_inputs import GraphInputs, graph_inputs
from service.core.engines.llamacpp.compute.kept_graphs import description
from service.core.engines.llamacpp.compute.shape_twins import model_description
from service.core.types import Tensor
from tests.core.engines.llamacpp.compute.questions import question
from tests.models import load_model

LLAMA = "llama-3.2-3b:Q4_K_M"
# told by the model, which is named beside the description, or by nothing that graphs depend on
NOT_DESCRIBED = {"model", "hp", "slots", "built", "moved"}


def inputs(**case: Any) -> GraphInputs:
    return graph_inputs(question(load_model(LLAMA), **case), symbolic=True)


@pytest.mark.parametrize(
    "field", [field.name for field in fields(GraphInputs) if field.name not in {*NOT_DESCRIBED, "ctx"}]
)
def test_everything_that_tells_graphs_apart_is_described(field: str) -> None:
    """In the memory of a process too, inputs that differ in it have different graphs."""
    one, changed = inputs(), cast("Any", {field: "another"})
    other = replace(one, **changed)
    assert one != other
    assert str(description("prompt", one)) != str(description("prompt", other))


@pytest.mark.parametrize("field", [field.name for field in fields(inputs().ctx)])
def test_everything_of_a_context_is_described(field: str) -> None:
    """Batches, streams, types of the cache and whatever is added to it."""
    one, changed = inputs(), cast("Any", {field: 2**40})
    other = replace(one, ctx=replace(one.ctx, **changed))
    assert str(description("prompt", one)) != str(description("prompt", other))


def test_equal_inputs_are_described_alike() -> None:
    """Whatever the context, where one graph stands for all; and the graphs of one question apart."""
    assert description("prompt", inputs(context_tokens=4096)) == description("prompt", inputs(context_tokens=65536))
    assert description("prompt", inputs()) != description("generation", inputs())


@pytest.mark.parametrize("typed", [True, False])
def test_everything_in_a_model_is_described(*, typed: bool) -> None:
    """Its metadata and shapes always, the types of matrices where these matter, and nothing but plain values."""
    model = load_model(LLAMA)
    described = model_description(model, typed=typed)
    key = "llama.attention.head_count"
    more_heads = replace(model, metadata={**model.metadata, key: 48})
    assert model_description(more_heads, typed=typed) != described
    matrix = next(tensor for tensor in model.tensors if tensor.type.block_elements > 1)
    vector = next(tensor for tensor in model.tensors if tensor.type.id == 0)

    def with_changed(tensor: Tensor, **changes: Any) -> Any:
        tensors = tuple(replace(each, **changes) if each is tensor else each for each in model.tensors)
        return model_description(replace(model, tensors=tensors), typed=typed)

    other_matrix = load_model("llama-3.2-3b:Q8_0").tensor_by_name[matrix.name]
    assert (with_changed(matrix, type=other_matrix.type) != described) is typed
    assert with_changed(vector, type=matrix.type) != described
    assert with_changed(matrix, shape=(64, 64)) != described
    assert with_changed(matrix, name="another") != described
    assert json.dumps(described[2])
