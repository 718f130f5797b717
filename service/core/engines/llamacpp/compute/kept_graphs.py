"""What was found out about graphs before, in this process or another: what the core asks of whoever keeps it.

The core describes a graph by everything that decides over it, and takes what is kept of one so described as its own
work. Where it is kept is not its business: by default nothing is.

Source: what llama_context::graph_reserve reads, src/llama-context.cpp:2523-2600 (llama.cpp in llama-cpp-python 0.3.36).
"""

from collections.abc import Callable, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any, Final, Literal, Protocol, TypeAlias

from service.core.engines.llamacpp.compute.footprint import Pieces
from service.core.engines.llamacpp.compute.graph_inputs import GraphInputs
from service.core.types import Model

GraphKind: TypeAlias = Literal["prompt", "generation"]
Counts: TypeAlias = tuple[int, ...]
"""Cells of the caches, in the order of their kinds."""
Sizes: TypeAlias = tuple[int, ...]
"""Bytes of the buffers, the host's last."""
GraphPieces: TypeAlias = Sequence[Sequence[Pieces]]
"""Of each graph the pieces in each buffer; no graph where its inputs do not tell what it needs (TypesMatterError)."""
Description: TypeAlias = tuple[Any, ...]
"""Numbers, words, None, types of tensors, and sequences of such; equal where graphs of one model are."""


class KeptGraph(Protocol):
    """What is kept of one graph, or of the few that one batch takes; damaged is as good as not kept."""

    def sizes(self) -> dict[Counts, Sizes]:
        """The buffers for all counts that were asked for; the dictionary is the caller's."""

    def pieces(self) -> GraphPieces | None:
        """What the buffers are made of, None where it is not known."""

    def keep_sizes(self, counts: Counts, sizes: Sizes) -> None:
        """Keep the buffers for further counts."""

    def keep_pieces(self, pieces: GraphPieces) -> None:
        """Keep what the buffers are made of."""


class GraphStore(Protocol):
    """Keeps graphs; must be quick, safe to call from several threads, and never raise."""

    def graph(self, model: Model, *, typed: bool, described: Description, n_buffers: int) -> KeptGraph:
        """What is kept of a graph of a model; typed: whether types of its tensors matter, not their shapes alone."""


class _Nothing:
    """Keeps nothing."""

    def graph(self, model: Model, *, typed: bool, described: Description, n_buffers: int) -> KeptGraph:  # noqa: ARG002
        return self

    def sizes(self) -> dict[Counts, Sizes]:
        return {}

    def pieces(self) -> GraphPieces | None:
        return None

    def keep_sizes(self, counts: Counts, sizes: Sizes) -> None:
        pass

    def keep_pieces(self, pieces: GraphPieces) -> None:
        pass


NOTHING: Final = _Nothing()
"""The store that keeps nothing, and what it keeps of any graph."""

_store: GraphStore = NOTHING

_DESCRIBED: Final[Callable[[GraphInputs], tuple[Any, ...]]] = attrgetter(
    *(
        field.name
        for field in fields(GraphInputs)
        if field.compare and field.name not in ("model", "hp", "ctx", "rules")
    )
)


def keep_graphs_in(store: GraphStore) -> None:
    """Keep graphs that are built from now on in `store`, for the whole process."""
    global _store  # noqa: PLW0603 - memoised rules know their arguments alone, and there is one store in a process
    _store = store


def kept_graph(kind: GraphKind, inputs: GraphInputs) -> KeptGraph:
    """What is kept of the graph that inputs describe."""
    if _store is NOTHING:
        return NOTHING
    return _store.graph(
        inputs.model, typed=inputs.types_matter, described=description(kind, inputs), n_buffers=len(inputs.backends) + 1
    )


def description(kind: GraphKind, inputs: GraphInputs) -> Description:
    """Everything that a graph depends on besides its model, whose hparams follow from it."""
    ctx = inputs.ctx
    return (kind, ctx.n_ctx, ctx.n_ctx_seq, *ctx.shape, sorted(inputs.rules), *_DESCRIBED(inputs))
