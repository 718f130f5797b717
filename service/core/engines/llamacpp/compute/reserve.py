"""Graphs of the largest prompt and generation batches, and the memory all of them need."""

from collections.abc import Mapping
from functools import lru_cache

from service.core.engines.llamacpp.compute.footprint import CELLS_PER_UNIT, SYMBOLS, NotAffineError
from service.core.engines.llamacpp.compute.graph_inputs import GraphInputs, graph_inputs
from service.core.engines.llamacpp.compute.graph_memory import Batch, GraphMemory, graph_memory
from service.core.engines.llamacpp.compute.question import ComputeBuffers, ComputeQuestion
from service.core.engines.llamacpp.compute.schedule import OFFLOAD_MIN_BATCH
from service.core.engines.llamacpp.graphs import architecture_graph
from service.core.engines.llamacpp.kv_cache import kv_index
from service.core.units import pad


def compute_buffers(question: ComputeQuestion) -> ComputeBuffers:
    """Scratch memory of every device and of the host.

    Raises Unsupported for an architecture whose graph is not known.
    Source: sched_reserve, src/llama-context.cpp:616-768: prompt, generation and prompt batch again; a buffer is the
    largest of the three.
    """
    groups = kv_index(question.hp, question.ctx).groups
    cells: dict[str, int] = {group.layout.kind: group.cells for group in groups if group.layout.kind in SYMBOLS}
    inputs = graph_inputs(question, symbolic=_may_be_symbolic(question, cells))
    try:
        graphs = _graphs(inputs)
    except NotAffineError:
        graphs = _graphs(graph_inputs(question, symbolic=False))
    sizes = graphs[0].buffers(cells)
    for graph in graphs[1:]:
        sizes = list(map(max, sizes, graph.buffers(cells)))
    return ComputeBuffers(
        device_bytes=tuple([sizes[device] for device in inputs.built.stands_for]),
        host_bytes=sizes[-1],
        n_splits=graphs[0].n_splits,
    )


def _may_be_symbolic(question: ComputeQuestion, cells: Mapping[str, int]) -> bool:
    """Whether one graph stands for every context length.

    A context shorter than the indexer's choice changes the graph itself; counts of cells must be whole units.
    """
    long_enough = not question.hp.indexer_top_k or min(cells.values(), default=0) > question.hp.indexer_top_k
    return long_enough and all(count % CELLS_PER_UNIT == 0 for count in cells.values())


@lru_cache(maxsize=4096)
def _graphs(inputs: GraphInputs) -> tuple[GraphMemory, ...]:
    """The prompt's graph and, where they could need more anywhere, those of generation and of one sequence alone.

    Source: sched_reserve, src/llama-context.cpp:700-730 (llama.cpp in llama-cpp-python 0.3.36).
    """
    ctx, n_seqs = inputs.ctx, inputs.ctx.n_seq_max
    batches = [Batch(n_tokens=pad(ctx.n_tokens, n_seqs), n_seqs=n_seqs, n_outputs=ctx.n_outputs)]
    if not inputs.fit_view:
        if _generation_counts(inputs):
            batches.append(Batch(n_tokens=n_seqs, n_seqs=n_seqs, n_outputs=n_seqs))
        if n_seqs > 1 and architecture_graph(inputs.model.architecture).reserves_one_sequence:
            batches.append(Batch(n_tokens=ctx.n_tokens, n_seqs=1, n_outputs=ctx.n_outputs))
    return tuple([graph_memory(inputs, batch) for batch in batches])


def _generation_counts(inputs: GraphInputs) -> bool:
    """Whether the graph of single tokens may need more memory than the prompt's.

    It has the same nodes, each no larger, unless recurrent layers take other ways for single tokens or operations with
    host weights stay on the host for few rows.
    """
    ctx = inputs.ctx
    same_places = inputs.fully_offloaded and (not inputs.op_offload or not inputs.moved)
    return not same_places or any(inputs.hp.is_recr) or ctx.n_tokens < OFFLOAD_MIN_BATCH * ctx.n_seq_max
