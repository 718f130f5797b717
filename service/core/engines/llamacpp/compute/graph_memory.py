"""One graph of a model: built, put on backends, and walked through by the allocator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from service.core.engines.llamacpp.buffer_types import HOST_RULES, buffer_rules
from service.core.engines.llamacpp.compute.footprint import SYMBOLS, Footprint
from service.core.engines.llamacpp.compute.graph_inputs import GraphInputs
from service.core.engines.llamacpp.compute.kept_sources import kept_sources, with_notes
from service.core.engines.llamacpp.compute.liveness import trace
from service.core.engines.llamacpp.compute.node import WEIGHT, Node
from service.core.engines.llamacpp.compute.schedule import OFFLOAD_MIN_BATCH, Split, place_nodes, split
from service.core.engines.llamacpp.compute.scratch import add_scratch
from service.core.engines.llamacpp.compute.vulkan_order import vulkan_order
from service.core.engines.llamacpp.compute.weights import weight_table
from service.core.engines.llamacpp.graphs import Build, architecture_graph, draft_layers_graph
from service.core.engines.llamacpp.graphs.context import GraphContext
from service.core.engines.llamacpp.kv_cache import kv_index
from service.core.engines.llamacpp.slots import CPU, SlotMap
from service.core.engines.llamacpp.versions import Rule
from service.core.types import Backend


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Tokens in sequences, and the rows whose logits are wanted."""

    n_tokens: int
    n_seqs: int
    n_outputs: int


def built_graph(inputs: GraphInputs, batch: Batch, *, fused_post: bool = True) -> GraphContext:
    """The graph of a batch; fused_post: whether residual streams are updated by one operation."""
    model, hp, slots = inputs.model, inputs.hp, inputs.slots
    host = len(inputs.backends)
    g = GraphContext(
        table=weight_table(model),
        hp=hp,
        metadata=model.metadata,
        ctx=inputs.ctx,
        caches={
            group.layout.kind: replace(group, cells=SYMBOLS.get(group.layout.kind, group.cells))
            if inputs.symbolic
            else group
            for group in kv_index(hp, inputs.ctx).groups
        },
        n_tokens=batch.n_tokens,
        n_seqs=batch.n_seqs,
        n_outputs=batch.n_outputs,
        layers=inputs.built.layers,
        backends=_block_backends(slots, host),
        output_backend=host if slots.output_device == CPU else slots.output_device,
        host=host,
        moved={name: host if device == CPU else device for name, device in inputs.moved.items()},
        pins=not inputs.fit_view and (batch.n_tokens < OFFLOAD_MIN_BATCH or slots.fully_offloaded),
        hard_pins=not inputs.fit_view,
        fused_post=fused_post,
        rules=inputs.rules,
    )
    _build_of(inputs)(g)
    return g


def _build_of(inputs: GraphInputs) -> Build:
    """The graph of the trunk, or that of the draft (MTP) layers in their own context."""
    name = inputs.model.architecture
    return draft_layers_graph(name) if inputs.ctx.mtp else architecture_graph(name).build


def fuses_post(inputs: GraphInputs, n_seqs: int) -> bool:
    """Whether residual streams are updated by one operation: only if each runs on its own block's backend.

    A block on the host may hand that over to the device behind it, unless the architecture ties it down. Other fused
    operations are used always, or always run where their block is.

    Source: llama_context::resolve_fused_ops, src/llama-context.cpp:507-584 (llama.cpp in llama-cpp-python 0.3.36).
    """
    if not inputs.hp.dsv4_hc_mult or (inputs.fully_offloaded and not inputs.moved):
        return True
    g = built_graph(inputs, Batch(n_tokens=n_seqs, n_seqs=n_seqs, n_outputs=n_seqs))
    place_nodes(g.graph, inputs.backends, op_offload=inputs.op_offload)
    return all(node.place == g.backends[il] for node, il in g.probes)


class TypesMatterError(Exception):
    """A device copies a matrix of the host, although blocks were not told apart by the types of such."""


def graph_memory(inputs: GraphInputs, batch: Batch, *, fused_post: bool) -> tuple[Footprint, ...]:
    """Memory of the graph of a batch on each backend, the host last.

    Raises TypesMatterError where the batch needs inputs that tell types.
    """
    g = built_graph(inputs, batch, fused_post=fused_post)
    backends, host = inputs.backends, len(inputs.backends)
    place_nodes(g.graph, backends, op_offload=inputs.op_offload)
    # a block that runs again may have its cache, and so its rope, on another device than its weights
    copies_weights = bool(inputs.moved) or inputs.op_offload or inputs.hp.n_loops > 1
    plan = split(g.graph, inputs.pipeline_copies, copies_weights=copies_weights)
    if not inputs.types_matter and _copies_matrices(plan.splits):
        raise TypesMatterError
    add_scratch(g.graph.nodes, backends, inputs.rules)
    _pad_copies(plan.splits, backends)
    for part in plan.splits:
        if part.place < host:
            part.nodes = _optimised(part.nodes, backends[part.place], inputs.rules)
    lives = trace((*plan.copies, *g.graph.leafs), plan.steps, host + 1)
    rules = [*map(buffer_rules, backends), HOST_RULES]
    return tuple(Footprint(rules[i], lives.events[i], lives.sizes, lives.remains) for i in range(host + 1))


def _optimised(nodes: Sequence[Node], backend: Backend, rules: frozenset[Rule]) -> Sequence[Node]:
    """The nodes of a split as the backend wants them: in its order, with what it keeps.

    Source: graph_optimize of each backend, see `kept_sources` and `vulkan_order`. Metal's order is not known here.
    """
    kept_for = kept_sources(nodes, backend) if "fused_sources_kept" in rules else {}
    if backend == "vulkan" and "vulkan_reorders" in rules:
        nodes = vulkan_order(nodes)
    return with_notes(nodes, kept_for)


def _copies_matrices(splits: Iterable[Split]) -> bool:
    """Whether a weight of more than one row is copied: a single row is never quantised."""
    return any(source.flags & WEIGHT and source.ne[1] > 1 for part in splits for source, _ in part.copied)


def _pad_copies(splits: Iterable[Split], backends: tuple[Backend, ...]) -> None:
    """Copies of quantised tensors get what a backend adds to quantised rows."""
    for part in splits:
        if part.copied and part.place < len(backends):
            rules = buffer_rules(backends[part.place])
            for _, copy in part.copied:
                if copy.type.block_elements > 1:
                    copy.size = rules.allocated_bytes(copy.type, copy.ne[0], copy.size)


def _block_backends(slots: SlotMap, host: int) -> list[int]:
    backends: list[int] = []
    for run in slots.runs:
        backends += [host if run.device == CPU else run.device] * (run.end - run.first)
    return backends
