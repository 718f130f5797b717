"""What an architecture's graph function works with: the model, the batch, and where things lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.compute.graph import Graph
from service.core.engines.llamacpp.compute.node import I32, INPUT, OUTPUT, Node, Shape, leaf
from service.core.engines.llamacpp.compute.ops import get_rows
from service.core.engines.llamacpp.compute.weights import WeightTable
from service.core.engines.llamacpp.context import ContextNumbers
from service.core.engines.llamacpp.kv_cache import CacheGroup
from service.core.engines.llamacpp.versions import Rule
from service.core.types import MetadataValue, TensorType

_STATES: Final = frozenset(("recurrent", "ple"))


class Block:
    """The weights of one block: `block("attn_q.weight")` is a node, or None where the file has no such tensor."""

    __slots__ = ("_backend", "_il", "_moved", "_table")

    def __init__(self, table: WeightTable, il: int, backend: int, moved: Mapping[str, int]) -> None:
        self._table = table
        self._il = il
        self._backend = backend
        self._moved = moved

    def __call__(self, name: str) -> Node | None:
        """The weight called `blk.<il>.<name>`."""
        backend = self._moved.get(f"blk.{self._il}.{name}", self._backend) if self._moved else self._backend
        return self._table.node(self._il, name, backend)

    def need(self, name: str) -> Node:
        """The same for a weight every model of the architecture has."""
        node = self(name)
        if node is None:
            raise KeyError(f"blk.{self._il}.{name}")
        return node

    def has(self, name: str) -> bool:
        """Whether the block has the tensor."""
        return name in self._table.blocks[self._il]

    def unscaled(self) -> Block:
        """The same block for calls that pass no scales, although the file may have them."""
        return _UnscaledBlock(self._table, self._il, self._backend, self._moved)


class _UnscaledBlock(Block):
    __slots__ = ()

    def __call__(self, name: str) -> Node | None:
        return None if name.endswith(".scale") else super().__call__(name)


class GraphContext:
    """One graph under construction, as llm_graph_context is to llama.cpp's graph builders.

    layers: indices of the blocks to build; blocks that repeat earlier ones on the same backend are left out, so
    never compute anything from how many are visited. last: index of the last trunk block.
    n_tokens, n_seqs, n_seq_tokens: the batch; n_outputs: rows of logits; n_stream: KV streams.
    host: number of the host's backend, behind the devices'. backends: backend of each block.
    caches: by kind ("base", "swa", "indexer", "recurrent", …). pins: whether norms are tied to their block's backend,
    hard_pins: whether anything is. memo: inputs and caches that several blocks share, and what else they hand on.
    fused_post: whether residual streams are updated by one operation. probes: such operations in the graph, with their
    block.
    rules: those of the llama.cpp version that change graphs.

    Source: llm_graph_context, src/llama-graph.cpp:1493-1536 (llama.cpp in llama-cpp-python 0.3.36).
    """

    __slots__ = (
        "backends",
        "caches",
        "ctx",
        "fused_post",
        "graph",
        "hard_pins",
        "host",
        "hp",
        "layers",
        "memo",
        "metadata",
        "moved",
        "n_embd",
        "n_outputs",
        "n_seq_tokens",
        "n_seqs",
        "n_stream",
        "n_tokens",
        "output_backend",
        "pins",
        "prefix",
        "probes",
        "rules",
        "table",
    )

    def __init__(
        self,
        *,
        table: WeightTable,
        hp: Hparams,
        metadata: Mapping[str, MetadataValue],
        ctx: ContextNumbers,
        caches: Mapping[str, CacheGroup],
        n_tokens: int,
        n_seqs: int,
        n_outputs: int,
        layers: Sequence[int],
        backends: Sequence[int],
        output_backend: int,
        host: int,
        moved: Mapping[str, int],
        pins: bool,
        hard_pins: bool,
        fused_post: bool,
        rules: frozenset[Rule],
    ) -> None:
        self.graph = Graph()
        self.table = table
        self.hp = hp
        self.metadata = metadata
        self.prefix = hp.arch.name + "."
        self.ctx = ctx
        self.caches = caches
        self.n_tokens = n_tokens
        self.n_seqs = n_seqs
        self.n_seq_tokens = n_tokens // n_seqs
        self.n_outputs = n_outputs
        self.n_stream = 1 if ctx.kv_unified else n_seqs
        self.n_embd = hp.n_embd
        self.layers = layers
        self.backends = backends
        self.output_backend = output_backend
        self.host = host
        self.moved = moved
        self.pins = pins
        self.hard_pins = hard_pins
        self.fused_post = fused_post
        self.rules = rules
        self.memo: dict[object, Node] = {}
        self.probes: list[tuple[Node, int]] = []

    @property
    def last(self) -> int:
        """Index of the last trunk block."""
        return self.hp.n_layer - 1

    @property
    def flash_attn(self) -> bool:
        """Whether attention is fused."""
        return self.ctx.flash_attn

    def block(self, il: int) -> Block:
        """Weights of block `il`; the first call for a block is where it begins."""
        n_begun = len(self.graph.begins)
        if n_begun < len(self.layers) and self.layers[n_begun] == il:
            self.graph.begin_block()
        return Block(self.table, il, self.backends[il], self.moved)

    def input_weight(self, name: str) -> Node:
        """A weight of the input layer, which always lies on the host (unless moved)."""
        node = self.table.node(-1, name, self.moved.get(name, self.host))
        if node is None:
            raise KeyError(name)
        return node

    def output_weight(self, name: str) -> Node | None:
        """A weight of the output layer; None where the file has none."""
        return self.table.node(-1, name, self.moved.get(name, self.output_backend))

    def shared_weight(self, name: str, il: int) -> Node | None:
        """A weight that the file holds once and every block uses from its own backend (rope_freqs and the like)."""
        return self.table.node(-1, name, self.moved.get(name, self.backends[il]))

    def number(self, suffix: str, default: float = 0.0) -> float:
        """A number of the model's metadata, by the part of its key behind the architecture's name."""
        value = self.metadata.get(self.prefix + suffix, default)
        return float(value) if isinstance(value, int | float) else default

    def input(self, name: str, type_: TensorType, ne0: int, ne1: int = 1, ne2: int = 1, ne3: int = 1) -> Node:
        """A graph input, filled by the host before each batch; the same node for the same name."""
        node = self.memo.get(name)
        if node is None:
            ne: Shape = (ne0, ne1, ne2, ne3)
            node = leaf(type_, ne, flags=INPUT)
            self.memo[name] = node
        return node

    def cells(self, kind: str) -> int:
        """Cells per stream of the cache `kind`."""
        return self.caches[kind].cells

    def cache(self, kind: str, il: int, *, second: bool = False) -> Node:
        """The K tensor of block `il` in a cache, or with `second` the V tensor: [width, cells, streams].

        Recurrent state ("recurrent": the rolling state, with `second` the state proper) is [width, rows]. It lies on
        the block's backend, or on the host's with --no-kv-offload.
        """
        key = (kind, il, second)
        node = self.memo.get(key)
        if node is None:
            group = self.caches[kind]
            width = (group.layout.second if second else group.layout.first)[il]
            flat = group.layout.kind in _STATES
            ne = (width, group.rows, 1, 1) if flat else (width, group.cells, group.n_stream, 1)
            type_ = group.type_second if second else group.type_first
            node = leaf(type_, ne, buffer=self.backends[il] if self.ctx.offload_kqv else self.host)
            self.memo[key] = node
        return node

    def expand(self, node: Node) -> None:
        """ggml_build_forward_expand."""
        self.graph.expand(node)

    def probe(self, node: Node, il: int) -> None:
        """Note a fused operation of block `il`: it is only used where it runs on the block's own backend."""
        self.probes.append((node, il))

    def pin_norm(self, node: Node, il: int) -> None:
        """Tie a norm to the backend of its block, where llama.cpp does (cb(cur, "norm", il))."""
        if self.pins and il >= 0:
            node.place = self.backends[il]

    def select_outputs(self, il: int, *nodes: Node) -> tuple[Node, ...]:
        """After the last block's attention, go on with the rows whose logits are wanted."""
        if il != self.last:
            return nodes
        rows = self.input("out_ids", I32, self.n_outputs)
        return tuple(get_rows(node, rows) for node in nodes)

    def finish(self, embeddings: Node, logits: Node | None) -> None:
        """Mark the results and complete the graph."""
        embeddings.flags |= OUTPUT
        if logits is None:
            self.graph.expand(embeddings)
        else:
            logits.flags |= OUTPUT
            self.graph.expand(logits)
