"""Graphs of the largest prompt and generation batches, and the memory all of them need."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.buffer_types import BufferRules
from service.core.engines.llamacpp.compute.footprint import CELLS_PER_UNIT, SYMBOLS, Footprint, NotAffineError
from service.core.engines.llamacpp.compute.graph_inputs import GraphInputs, graph_inputs
from service.core.engines.llamacpp.compute.graph_memory import (
    Batch,
    TypesMatterError,
    fuses_post,
    graph_memory,
    rules_of_buffers,
)
from service.core.engines.llamacpp.compute.kept_graphs import GraphKind, KeptGraph, kept_graph
from service.core.engines.llamacpp.compute.question import ComputeBuffers, ComputeQuestion
from service.core.engines.llamacpp.compute.schedule import OFFLOAD_MIN_BATCH
from service.core.engines.llamacpp.graphs import architecture_graph
from service.core.engines.llamacpp.kv_cache import KvIndex, kv_index
from service.core.units import pad


def compute_buffers(question: ComputeQuestion) -> ComputeBuffers:
    """Scratch memory of every device and of the host.

    Raises Unsupported for an architecture whose graph is not known.
    Source: sched_reserve, src/llama-context.cpp:616-768: prompt, generation and prompt batch again; a buffer is the
    largest of the three.
    """
    cells = cells_by_kind(question)
    reserved = reserve_for_all_lengths(question) if may_be_symbolic(question.hp, cells) else None
    return buffers_at_length(question, cells) if reserved is None else reserved.buffers(cells)


def buffers_at_length(question: ComputeQuestion, cells: Mapping[str, int]) -> ComputeBuffers:
    """Buffers from graphs for this one length."""
    return _reserved(question, symbolic=False).buffers(cells)


def cells_by_kind(question: ComputeQuestion) -> Mapping[str, int]:
    """Cells per stream of the caches of a question whose length follows the context."""
    return cells_of(kv_index(question.hp, question.ctx))


def cells_of(index: KvIndex) -> Mapping[str, int]:
    """Cells per stream of the caches whose length follows the context."""
    return {group.layout.kind: group.cells for group in index.groups if group.layout.kind in SYMBOLS}


def may_be_symbolic(hp: Hparams, cells: Mapping[str, int]) -> bool:
    """Whether one graph stands for every context length.

    A context shorter than the indexer's choice changes the graph itself; counts of cells must be whole units, and so
    must counts of an indexer's pools of cells.
    """
    if hp.indexer_top_k and cells.get("indexer", min(cells.values(), default=0)) <= hp.indexer_top_k:
        return False
    unit = CELLS_PER_UNIT * max(1, hp.indexer_kpool)
    return not any([count % unit for count in cells.values()])  # noqa: C419 - for every context that is looked at


class Graphs:
    """The graphs that llama.cpp reserves for a batch, by the buffers they take.

    Sizes are known for every length that was asked for, here or, where graphs are kept, in an earlier process: then the
    graphs themselves are only built for a length that is new. Raises what building raises.
    """

    __slots__ = ("_build", "_footprints", "_kept", "_rules", "_sizes")

    def __init__(
        self, build: Callable[[], Sequence[Sequence[Footprint]]], rules: Sequence[BufferRules], kept: KeptGraph
    ) -> None:
        self._build, self._rules, self._kept = build, rules, kept
        self._sizes = kept.sizes()
        self._footprints = None if self._sizes else self._found()

    def sizes(self, cells: Mapping[str, int]) -> tuple[int, ...]:
        """The largest buffers over all graphs where the caches have `cells`, the host's last."""
        counts = tuple(cells.values())
        found = self._sizes.get(counts)
        if found is None:
            found = self._sizes[counts] = self._sized(cells)
            self._kept.keep_sizes(counts, found)
        return found

    def _sized(self, cells: Mapping[str, int]) -> tuple[int, ...]:
        footprints = self._footprints = self._footprints or self._found()
        sizes = [[footprint.bytes_for(cells) for footprint in graph] for graph in footprints]
        return tuple(map(max, *sizes)) if len(sizes) > 1 else tuple(sizes[0])

    def _found(self) -> Sequence[Sequence[Footprint]]:
        kept = self._kept.pieces()
        if kept is not None:
            if not kept:
                raise TypesMatterError
            return [list(map(Footprint, self._rules, graph)) for graph in kept]
        try:
            built = self._build()
        except TypesMatterError:
            self._kept.keep_pieces(())
            raise
        self._kept.keep_pieces([[footprint.pieces for footprint in graph] for graph in built])
        return built


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """Some of the graphs; stands_for: the backend that is built for each device."""

    graphs: Graphs
    stands_for: tuple[int, ...]

    def sizes(self, cells: Mapping[str, int]) -> tuple[int, ...]:
        """The buffers of these graphs where the caches have `cells`, the host's last."""
        sizes = self.graphs.sizes(cells)
        return (*[sizes[device] for device in self.stands_for], sizes[-1])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reserved:
    """All graphs for a model on its devices."""

    parts: Sequence[Part]

    def buffers(self, cells: Mapping[str, int]) -> ComputeBuffers:
        """The buffers where the caches have `cells`."""
        sizes = self.parts[0].sizes(cells)
        for part in self.parts[1:]:
            sizes = tuple(map(max, sizes, part.sizes(cells)))
        return ComputeBuffers(device_bytes=sizes[:-1], host_bytes=sizes[-1])


def reserve_for_all_lengths(question: ComputeQuestion) -> Reserved | None:
    """Graphs of symbolic counts of cells; None where these do not stand for all counts."""
    try:
        return _reserved(question, symbolic=True)
    except NotAffineError:
        return None


def buffers_of(inputs: GraphInputs, cells: Mapping[str, int]) -> ComputeBuffers:
    """The largest buffers of all graphs that llama.cpp reserves, built from the same blocks.

    Raises NotAffineError where the graphs of symbolic counts of cells do not stand for all counts.
    """
    graphs = [_prompt(inputs)]
    if _generation_counts(inputs):
        graphs.append(_generation(inputs))
    parts = [Part(graphs=each, stands_for=inputs.built.stands_for) for each in graphs]
    return Reserved(parts=parts).buffers(cells)


def _reserved(question: ComputeQuestion, *, symbolic: bool) -> Reserved:
    """The prompt's graphs and, where it could need more anywhere, that of generation.

    Few tokens copy no matrices from the host, so that fewer blocks stand for all.
    Source: sched_reserve, src/llama-context.cpp:700-730 (llama.cpp in llama-cpp-python 0.3.36).
    """
    inputs = graph_inputs(question, symbolic=symbolic)
    parts = [Part(graphs=_prompt(inputs), stands_for=inputs.built.stands_for)]
    if _generation_counts(inputs):
        try:
            plain = graph_inputs(question, symbolic=symbolic, types_matter=False)
            parts.append(Part(graphs=_generation(plain), stands_for=plain.built.stands_for))
        except TypesMatterError:
            parts.append(Part(graphs=_generation(inputs), stands_for=inputs.built.stands_for))
    return Reserved(parts=parts)


@lru_cache(maxsize=4096)
def _prompt(inputs: GraphInputs) -> Graphs:
    """The graphs of the largest prompt, and of the largest of one sequence alone where that may need more."""
    ctx, n_seqs = inputs.ctx, inputs.ctx.n_seq_max
    batches = [Batch(n_tokens=pad(ctx.n_tokens, n_seqs), n_seqs=n_seqs, n_outputs=ctx.n_outputs)]
    if not inputs.fit_view and n_seqs > 1 and architecture_graph(inputs.model.architecture).reserves_one_sequence:
        batches.append(Batch(n_tokens=ctx.n_tokens, n_seqs=1, n_outputs=ctx.n_outputs))
    return _graphs("prompt", inputs, batches)


@lru_cache(maxsize=4096)
def _generation(inputs: GraphInputs) -> Graphs:
    """The graph of one token for each sequence."""
    n_seqs = inputs.ctx.n_seq_max
    return _graphs("generation", inputs, [Batch(n_tokens=n_seqs, n_seqs=n_seqs, n_outputs=n_seqs)])


def _graphs(kind: GraphKind, inputs: GraphInputs, batches: Sequence[Batch]) -> Graphs:
    def build() -> Sequence[Sequence[Footprint]]:
        fused_post = fuses_post(inputs, inputs.ctx.n_seq_max)
        return [graph_memory(inputs, batch, fused_post=fused_post) for batch in batches]

    return Graphs(build, rules_of_buffers(inputs.backends), kept_graph(kind, inputs))


def _generation_counts(inputs: GraphInputs) -> bool:
    """Whether the graph of single tokens is reserved and may need more memory than the prompt's.

    It has the same nodes, each no larger, unless few tokens gather the cells that an indexer picks, or operations with
    host weights stay on the host for few rows. Fit looks at the prompt's alone.
    """
    ctx = inputs.ctx
    same_places = inputs.fully_offloaded and (not inputs.op_offload or not inputs.moved)
    return not inputs.fit_view and (
        not same_places or inputs.hp.indexer_kpool > 0 or ctx.n_tokens < OFFLOAD_MIN_BATCH * ctx.n_seq_max
    )
