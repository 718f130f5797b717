"""Graphs of the largest prompt and generation batches, and the memory both need."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.buffer_types import HOST_RULES, BufferRules, buffer_rules
from service.core.engines.llamacpp.compute.allocator import AnyPool, ChunkedPool, Pool, allocate, place
from service.core.engines.llamacpp.compute.graph import Graph
from service.core.engines.llamacpp.compute.node import NOWHERE
from service.core.engines.llamacpp.compute.question import ComputeBuffers, ComputeQuestion
from service.core.engines.llamacpp.compute.repetition import kept_blocks
from service.core.engines.llamacpp.compute.schedule import schedule
from service.core.engines.llamacpp.compute.weights import weight_table
from service.core.engines.llamacpp.graphs import ArchitectureGraph, architecture_graph
from service.core.engines.llamacpp.graphs.context import GraphContext
from service.core.engines.llamacpp.kv_cache import kv_index
from service.core.engines.llamacpp.slots import CPU
from service.core.types import Model
from service.core.units import pad


def compute_buffers(question: ComputeQuestion) -> ComputeBuffers:
    """Scratch memory of every device and of the host.

    Raises Unsupported for an architecture whose graph is not known.
    Source: sched_reserve, src/llama-context.cpp:616-768: prompt, generation and prompt batch again; a buffer is the
    largest of the three.
    """
    ctx = question.ctx
    prompt = _measure(question, ctx.n_tokens, ctx.n_seq_max, ctx.n_outputs)
    if question.fit_view:
        return prompt
    generation = _measure(question, ctx.n_seq_max, ctx.n_seq_max, ctx.n_seq_max)
    return ComputeBuffers(
        device_bytes=tuple(map(max, prompt.device_bytes, generation.device_bytes)),
        host_bytes=max(prompt.host_bytes, generation.host_bytes),
        n_splits=prompt.n_splits,
    )


@lru_cache(maxsize=256)
def block_kinds(model: Model, hp: Hparams) -> tuple[int, ...]:
    """A number per block, equal where the graphs of two blocks are: same tensors, shapes and per-layer hparams."""
    numbers: dict[Hashable, int] = {}
    blocks = weight_table(model).blocks
    graph = architecture_graph(model.architecture)
    kinds = []
    for il in range(hp.n_layer):
        tensors = tuple(sorted((name, tensor.shape) for name, tensor in blocks[il].items())) if il < len(blocks) else ()
        kind = (tensors, _layer_facts(hp, graph, il))
        kinds.append(numbers.setdefault(kind, len(numbers)))
    return tuple(kinds)


def _layer_facts(hp: Hparams, graph: ArchitectureGraph, il: int) -> tuple[Hashable, ...]:
    per_layer = (
        hp.n_head,
        hp.n_head_kv,
        hp.n_ff,
        hp.is_swa,
        hp.n_expert_used,
        hp.n_ff_exp,
        hp.is_recr,
        hp.is_indexer_full,
        hp.dsv4_compress_ratios,
        hp.is_ple,
    )
    facts = tuple(values[il] if il < len(values) else None for values in per_layer)
    return (*facts, hp.has_kv(il), graph.layer_key(hp, il) if graph.layer_key else None)


def _signatures(question: ComputeQuestion, backends: Sequence[int], host: int) -> list[Hashable]:
    """What distinguishes a block here: its kind, its backend, tensors elsewhere, and types of weights to be copied."""
    kinds = block_kinds(question.model, question.hp)
    moved = _moved_by_block(question)
    host_types = question.op_offload and any(buffer_rules(backend).offloads_ops for backend in question.backends)
    table = weight_table(question.model)
    signatures: list[Hashable] = []
    for il, kind in enumerate(kinds):
        elsewhere = moved.get(il)
        types: Hashable = None
        if host_types and (elsewhere or backends[il] == host):
            types = tuple(sorted((name, tensor.type.id) for name, tensor in table.blocks[il].items()))
        signatures.append((kind, backends[il], elsewhere, types, il == len(kinds) - 1))
    return signatures


def _moved_by_block(question: ComputeQuestion) -> dict[int, tuple[tuple[str, int], ...]]:
    moved: dict[int, list[tuple[str, int]]] = {}
    for name, device in question.tensor_location.items():
        if name.startswith("blk."):
            number, _, rest = name[4:].partition(".")
            moved.setdefault(int(number), []).append((rest, device))
    return {il: tuple(sorted(names)) for il, names in moved.items()}


def _measure(question: ComputeQuestion, n_tokens: int, n_seqs: int, n_outputs: int) -> ComputeBuffers:
    """Memory of one graph with `n_tokens` in `n_seqs` sequences, of which `n_outputs` have logits."""
    hp, ctx, slots = question.hp, question.ctx, question.slots
    host = len(question.backends)
    backends = [host if (device := slots.device_of(il)) == CPU else device for il in range(hp.n_layer_all)]
    n_tokens = pad(n_tokens, n_seqs)
    g = GraphContext(
        table=weight_table(question.model),
        hp=hp,
        metadata=question.model.metadata,
        ctx=ctx,
        caches={group.layout.kind: group for group in kv_index(hp, ctx).groups},
        n_tokens=n_tokens,
        n_seqs=n_seqs,
        n_outputs=n_outputs,
        layers=kept_blocks(_signatures(question, backends, host)),
        backends=backends,
        output_backend=host if slots.output_device == CPU else slots.output_device,
        host=host,
        moved={name: host if device == CPU else device for name, device in question.tensor_location.items()},
        pins=not question.fit_view and (n_tokens < 32 or slots.fully_offloaded),
        hard_pins=not question.fit_view,
        fused=frozenset(("gdn_ar", "gdn_ch", "lid", "hc")),
    )
    architecture_graph(question.model.architecture).build(g)
    return _allocate(question, g.graph)


def _allocate(question: ComputeQuestion, graph: Graph) -> ComputeBuffers:
    host = len(question.backends)
    rules = [*map(buffer_rules, question.backends), HOST_RULES]
    offload_to = NOWHERE
    if question.op_offload:
        offload_to = next((i for i, rule in enumerate(rules) if rule.offloads_ops), NOWHERE)
    plan = schedule(graph, host, offload_to, question.pipeline_copies)
    pools = [_pool(rule) for rule in rules]
    masks = [rule.alignment_bytes - 1 for rule in rules]
    for leaf in (*plan.copies, *graph.leafs):
        if leaf.owner < 0 and leaf.buffer < 0:
            place(leaf, pools, masks)
    allocate(plan.steps, pools, masks)
    sizes = [pool.peak_bytes for pool in pools]
    return ComputeBuffers(device_bytes=tuple(sizes[:host]), host_bytes=sizes[host], n_splits=plan.n_splits)


def _pool(rules: BufferRules) -> AnyPool:
    return Pool() if rules.max_buffer_bytes is None else ChunkedPool(rules.max_buffer_bytes)
