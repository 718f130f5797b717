"""Graphs of the largest prompt and generation batches, and the memory both need."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from service.core.architectures.hparams import Hparams, read_hparams
from service.core.engines.llamacpp.buffer_types import HOST_RULES, buffer_rules
from service.core.engines.llamacpp.compute.block_kinds import Representatives, representatives
from service.core.engines.llamacpp.compute.footprint import SYMBOLS, Footprint, NotAffineError
from service.core.engines.llamacpp.compute.liveness import trace
from service.core.engines.llamacpp.compute.node import NOWHERE
from service.core.engines.llamacpp.compute.question import ComputeBuffers, ComputeQuestion
from service.core.engines.llamacpp.compute.schedule import OFFLOAD_MIN_BATCH, schedule
from service.core.engines.llamacpp.compute.shape_twins import shape_twin
from service.core.engines.llamacpp.compute.weights import weight_table
from service.core.engines.llamacpp.context import ContextNumbers
from service.core.engines.llamacpp.graphs import architecture_graph
from service.core.engines.llamacpp.graphs.context import GraphContext
from service.core.engines.llamacpp.kv_cache import kv_index
from service.core.engines.llamacpp.slots import CPU, SlotMap
from service.core.types import Backend, Model
from service.core.units import pad

FUSED_OPERATIONS: Final = frozenset(("gdn_ar", "gdn_ch", "lid", "hc"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reserve:
    """What decides over the graphs: a question whose context length is symbolic, or kept where `symbolic` is off.

    built: the blocks that are looked at; two reserves with equal `built.key` have equal graphs whatever their slots.
    """

    model: Model
    hp: Hparams
    ctx: ContextNumbers
    fully_offloaded: bool
    output_device: int
    slots: SlotMap = field(compare=False)
    built: Representatives = field(compare=False)
    built_key: Hashable
    backends: tuple[Backend, ...]
    moved: tuple[tuple[str, int], ...]
    pipeline_copies: int
    offload_to: int
    fit_view: bool
    symbolic: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Graph:
    """Footprints of one graph per backend, the host last, for all backends that are built."""

    footprints: tuple[Footprint, ...]
    n_splits: int

    def buffers(self, cells: Mapping[str, int]) -> list[int]:
        """Bytes per backend, the host's last."""
        return [footprint.bytes_for(cells) for footprint in self.footprints]


def compute_buffers(question: ComputeQuestion) -> ComputeBuffers:
    """Scratch memory of every device and of the host.

    Raises Unsupported for an architecture whose graph is not known.
    Source: sched_reserve, src/llama-context.cpp:616-768: prompt, generation and prompt batch again; a buffer is the
    largest of the three.
    """
    groups = kv_index(question.hp, question.ctx).groups
    cells: dict[str, int] = {group.layout.kind: group.cells for group in groups if group.layout.kind in SYMBOLS}
    # a context shorter than the indexer's choice changes the graph itself
    symbolic = not question.hp.indexer_top_k or min(cells.values(), default=0) > question.hp.indexer_top_k
    reserve = _reserve(question, symbolic=symbolic)
    try:
        graphs = _graphs(reserve)
    except NotAffineError:
        graphs = _graphs(_reserve(question, symbolic=False))
    sizes = graphs[0].buffers(cells)
    for graph in graphs[1:]:
        sizes = list(map(max, sizes, graph.buffers(cells)))
    return ComputeBuffers(
        device_bytes=tuple([sizes[device] for device in reserve.built.stands_for]),
        host_bytes=sizes[-1],
        n_splits=graphs[0].n_splits,
    )


def _reserve(question: ComputeQuestion, *, symbolic: bool) -> _Reserve:
    ctx = question.ctx
    if symbolic:
        far = SYMBOLS["base"]
        ctx = replace(ctx, n_ctx=far, n_ctx_seq=far, n_ubatch=ctx.n_tokens)
    offload_to = NOWHERE
    if question.op_offload:
        backends = enumerate(question.backends)
        offload_to = next((i for i, backend in backends if buffer_rules(backend).offloads_ops), NOWHERE)
    model, hp = question.model, question.hp
    if offload_to == NOWHERE or (question.slots.fully_offloaded and not question.tensor_location):
        model = shape_twin(model)
        hp = read_hparams(model)
    slots, moved, with_types = question.slots, question.tensor_location, offload_to != NOWHERE
    built = representatives(
        model, hp, slots, question.backends, moved, with_types=with_types, every_block=not ctx.offload_kqv
    )
    return _Reserve(
        model=model,
        hp=hp,
        ctx=ctx,
        fully_offloaded=slots.fully_offloaded,
        output_device=slots.output_device,
        slots=slots,
        built=built,
        built_key=built.key,
        backends=question.backends,
        moved=tuple(moved.items()),
        pipeline_copies=question.pipeline_copies,
        offload_to=offload_to,
        fit_view=question.fit_view,
        symbolic=symbolic,
    )


@lru_cache(maxsize=4096)
def _graphs(reserve: _Reserve) -> tuple[_Graph, ...]:
    """The prompt's graph and, where they could need more anywhere, those of generation and of one sequence alone.

    Source: sched_reserve, src/llama-context.cpp:700-730 (llama.cpp in llama-cpp-python 0.3.36).
    """
    ctx = reserve.ctx
    graphs = [_graph(reserve, pad(ctx.n_tokens, ctx.n_seq_max), ctx.n_seq_max, ctx.n_outputs)]
    if not reserve.fit_view:
        if _generation_counts(reserve):
            graphs.append(_graph(reserve, ctx.n_seq_max, ctx.n_seq_max, ctx.n_seq_max))
        if ctx.n_seq_max > 1 and architecture_graph(reserve.model.architecture).reserves_one_sequence:
            graphs.append(_graph(reserve, ctx.n_tokens, 1, ctx.n_outputs))
    return tuple(graphs)


def _generation_counts(reserve: _Reserve) -> bool:
    """Whether the graph of single tokens may need more memory than the prompt's.

    It has the same nodes, each no larger, unless recurrent layers take other ways for single tokens or operations with
    host weights stay on the host for few rows.
    """
    ctx = reserve.ctx
    same_places = reserve.fully_offloaded and (reserve.offload_to == NOWHERE or not reserve.moved)
    return not same_places or any(reserve.hp.is_recr) or ctx.n_tokens < OFFLOAD_MIN_BATCH * ctx.n_seq_max


def _graph(reserve: _Reserve, n_tokens: int, n_seqs: int, n_outputs: int) -> _Graph:
    """Memory of one graph with `n_tokens` in `n_seqs` sequences, of which `n_outputs` have logits."""
    model, hp, slots = reserve.model, reserve.hp, reserve.slots
    host = len(reserve.backends)
    moved = dict(reserve.moved)
    g = GraphContext(
        table=weight_table(model),
        hp=hp,
        metadata=model.metadata,
        ctx=reserve.ctx,
        caches={
            group.layout.kind: replace(group, cells=SYMBOLS.get(group.layout.kind, group.cells))
            if reserve.symbolic
            else group
            for group in kv_index(hp, reserve.ctx).groups
        },
        n_tokens=n_tokens,
        n_seqs=n_seqs,
        n_outputs=n_outputs,
        layers=reserve.built.layers,
        backends=_block_backends(slots, host),
        output_backend=host if slots.output_device == CPU else slots.output_device,
        host=host,
        moved={name: host if device == CPU else device for name, device in moved.items()},
        pins=not reserve.fit_view and (n_tokens < OFFLOAD_MIN_BATCH or slots.fully_offloaded),
        hard_pins=not reserve.fit_view,
        fused=FUSED_OPERATIONS,
    )
    architecture_graph(model.architecture).build(g)
    copies_weights = bool(moved) or reserve.offload_to != NOWHERE
    plan = schedule(g.graph, host, reserve.offload_to, reserve.pipeline_copies, copies_weights=copies_weights)
    lives = trace((*plan.copies, *g.graph.leafs), plan.steps, host + 1)
    rules = [*map(buffer_rules, reserve.backends), HOST_RULES]
    return _Graph(
        footprints=tuple(Footprint(rules[i], lives.events[i], lives.sizes) for i in range(host + 1)),
        n_splits=plan.n_splits,
    )


def _block_backends(slots: SlotMap, host: int) -> list[int]:
    backends: list[int] = []
    for run in slots.runs:
        backends += [host if run.device == CPU else run.device] * (run.end - run.first)
    return backends
