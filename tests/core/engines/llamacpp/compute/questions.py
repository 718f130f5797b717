"""Questions about compute buffers for tests: a model on equal cards."""

from typing import Any

from service.core.architectures.hparams import read_hparams
from service.core.engines.llamacpp.compute import ComputeBuffers, ComputeQuestion
from service.core.engines.llamacpp.compute.graph_inputs import graph_inputs
from service.core.engines.llamacpp.compute.reserve import buffers_of, cells_by_kind
from service.core.engines.llamacpp.context import resolve_context
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.engines.llamacpp.slots import split_slots
from service.core.engines.llamacpp.versions import NEWEST
from service.core.engines.llamacpp.weights import locations, weight_layout
from service.core.types import Backend, Model


def question(
    model: Model,
    *,
    backends: tuple[Backend, ...] = ("rpc",),
    context_tokens: int = 8192,
    parallel: int = 1,
    on_host: int = 0,
    n_cpu_moe: int = 0,
    **settings: Any,
) -> ComputeQuestion:
    """A model with its first `on_host` slots on the host and the rest spread evenly over the cards."""
    hp = read_hparams(model)
    ctx = resolve_context(hp, LlamaCppSettings(**settings), context_tokens, parallel, NEWEST, backends=backends)
    slots = split_slots(hp.n_layer_all, max(hp.n_layer_all + 1 - on_host, 0), [1.0] * len(backends))
    pipelined = len(backends) > 1 and not on_host and not n_cpu_moe and ctx.offload_kqv
    return ComputeQuestion(
        model=model,
        hp=hp,
        ctx=ctx,
        slots=slots,
        backends=backends,
        tensor_location=locations(weight_layout(model, hp, (), n_cpu_moe), slots, backends),
        pipeline_copies=4 if pipelined else 1,
    )


def without_symbols(asked: ComputeQuestion) -> ComputeBuffers:
    """The buffers of a graph that is built for this very context."""
    return buffers_of(graph_inputs(asked, symbolic=False), cells_by_kind(asked))


def with_every_block(asked: ComputeQuestion) -> ComputeBuffers:
    """The buffers of a graph that leaves no block out."""
    return buffers_of(graph_inputs(asked, symbolic=False, every_block=True), cells_by_kind(asked))
