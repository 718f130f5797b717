"""One graph of a model: built, put on backends, and walked through by the allocator."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from service.core.engines.llamacpp.buffer_types import HOST_RULES, BufferRules, buffer_rules
from service.core.engines.llamacpp.compute.block_kinds import without_replay
from service.core.engines.llamacpp.compute.footprint import SYMBOLS, Footprint, pieces_of
from service.core.engines.llamacpp.compute.graph import Graph
from service.core.engines.llamacpp.compute.graph_inputs import GraphInputs
from service.core.engines.llamacpp.compute.graph_template import (
    BLOCK_SITES,
    HOST_SITE,
    OUTPUT_SITE,
    GraphTemplate,
    UnknownSiteError,
)
from service.core.engines.llamacpp.compute.kept_sources import kept_sources, with_notes
from service.core.engines.llamacpp.compute.liveness import trace
from service.core.engines.llamacpp.compute.node import WEIGHT, Node
from service.core.engines.llamacpp.compute.replay import NoReplayError, replayed
from service.core.engines.llamacpp.compute.schedule import OFFLOAD_MIN_BATCH, Split, place_nodes, split
from service.core.engines.llamacpp.compute.scratch import add_scratch
from service.core.engines.llamacpp.compute.sections import follow_sections, shares_of
from service.core.engines.llamacpp.compute.vulkan_order import vulkan_order
from service.core.engines.llamacpp.compute.weight_copies import UnknownWeightError, weight_copies
from service.core.engines.llamacpp.compute.weights import WeightTable, weight_table
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
    g = _context(inputs, batch, weight_table(inputs.model), _places(inputs), fused_post=fused_post)
    _build_of(inputs)(g)
    return g


@dataclass(frozen=True, slots=True, kw_only=True)
class _Places:
    """Backends of blocks, output and host, or sites that stand for them; moved: of weights that are elsewhere."""

    blocks: Sequence[int]
    output: int
    host: int
    moved: Mapping[str, int]


def _places(inputs: GraphInputs) -> _Places:
    slots, host = inputs.slots, len(inputs.backends)
    return _Places(
        blocks=_block_backends(slots, host),
        output=host if slots.output_device == CPU else slots.output_device,
        host=host,
        moved={name: host if device == CPU else device for name, device in inputs.moved.items()},
    )


def _context(
    inputs: GraphInputs, batch: Batch, table: WeightTable, places: _Places, *, fused_post: bool
) -> GraphContext:  # fmt: skip
    """A graph that is still empty."""
    hp = inputs.hp
    return GraphContext(
        table=table,
        hp=hp,
        metadata=inputs.model.metadata,
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
        backends=places.blocks,
        output_backend=places.output,
        host=places.host,
        moved=places.moved,
        pins=_pins(inputs, batch),
        hard_pins=not inputs.fit_view,
        fused_post=fused_post,
        rules=inputs.rules,
    )


def _pins(inputs: GraphInputs, batch: Batch) -> bool:
    return not inputs.fit_view and (batch.n_tokens < OFFLOAD_MIN_BATCH or inputs.slots.fully_offloaded)


_TEMPLATES: Final[OrderedDict[Hashable, GraphTemplate | None]] = OrderedDict()
_MAX_TEMPLATES: Final = 8


@contextmanager
def placed_graph(inputs: GraphInputs, batch: Batch, *, fused_post: bool) -> Iterator[Graph]:
    """The graph of a batch; one of all blocks is kept for the next placement of the same batch.

    What is kept is taken out while it is in use, so that another thread builds its own.
    """
    if len(inputs.built.layers) < inputs.hp.n_layer or inputs.ctx.mtp:
        yield built_graph(inputs, batch, fused_post=fused_post).graph
        return
    key = (
        inputs.model,
        inputs.ctx,
        inputs.symbolic,
        inputs.rules,
        batch,
        fused_post,
        _pins(inputs, batch),
        inputs.fit_view,
    )
    found = _TEMPLATES.pop(key, ())
    template = _template(inputs, batch, fused_post=fused_post) if isinstance(found, tuple) else found
    if template is None:
        yield built_graph(inputs, batch, fused_post=fused_post).graph
    else:
        places = _places(inputs)
        yield template.placed(places.blocks, places.output, places.host, places.moved)
    _TEMPLATES[key] = template
    if len(_TEMPLATES) > _MAX_TEMPLATES:
        _TEMPLATES.popitem(last=False)


def _template(inputs: GraphInputs, batch: Batch, *, fused_post: bool) -> GraphTemplate | None:
    """The graph at sites; None where it has leafs at sites of its own."""
    table = weight_table(inputs.model)
    stand_ins = WeightTable(outside=table.outside, blocks=table.blocks, nodes={})
    blocks = range(BLOCK_SITES, BLOCK_SITES + inputs.hp.n_layer_all + 1)
    places = _Places(blocks=blocks, output=OUTPUT_SITE, host=HOST_SITE, moved={})
    g = _context(inputs, batch, stand_ins, places, fused_post=fused_post)
    _build_of(inputs)(g)
    try:
        return GraphTemplate(g.graph, table, stand_ins.nodes)
    except UnknownSiteError:
        return None


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
    try:
        with placed_graph(inputs, batch, fused_post=fused_post) as graph:
            return memory_of(inputs, graph)
    except (NoReplayError, UnknownWeightError):
        whole = replace(inputs, built=without_replay(inputs.built, inputs.hp.n_layer))
        return graph_memory(whole, batch, fused_post=fused_post)


def rules_of_buffers(backends: Sequence[Backend]) -> list[BufferRules]:
    """Rules of each backend's buffer, the host's last."""
    return [*map(buffer_rules, backends), HOST_RULES]


def memory_of(inputs: GraphInputs, graph: Graph) -> tuple[Footprint, ...]:
    """Memory of a graph whose leafs and ties say where these lie."""
    backends, host = inputs.backends, len(inputs.backends)
    place_nodes(graph, backends, op_offload=inputs.op_offload)
    # a block that runs again may have its cache, and so its rope, on another device than its weights
    copies_weights = bool(inputs.moved) or inputs.op_offload or inputs.hp.n_loops > 1
    plan = split(graph, inputs.pipeline_copies, copies_weights=copies_weights)
    if not inputs.types_matter and _copies_matrices(plan.splits):
        raise TypesMatterError
    add_scratch(graph.nodes, backends, inputs.rules)
    _pad_copies(plan.splits, backends)
    repeated = inputs.built.replays
    shares = shares_of(graph, plan.splits) if repeated else ()
    for part in plan.splits:
        if part.place < host:
            part.nodes = _optimised(part.nodes, backends[part.place], inputs.rules)
    if repeated:
        built, followed = follow_sections(graph, plan, shares, host + 1)
        copies = weight_copies(
            plan.splits, built, inputs.built.layers, weight_table(inputs.model), rules_of_buffers(backends)
        )
        lives = replayed(built, followed, repeated, copies)
    else:
        lives = trace((*plan.copies, *graph.leafs), plan.steps, host + 1)
    rules = rules_of_buffers(backends)
    return tuple(
        Footprint(rule, pieces_of(rule, events, lives.sizes, lives.remains))
        for rule, events in zip(rules, lives.events, strict=True)
    )


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
