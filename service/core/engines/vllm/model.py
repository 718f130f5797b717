"""A model as vLLM loads it: parameters by layer with the way each is divided, and what every layer keeps per token."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Division: TypeAlias = Literal["column", "row", "kv_heads", "vocabulary", "replicated"]
Role: TypeAlias = Literal[
    "attention", "feed_forward", "experts", "shared_experts", "state", "state_gates", "router", "norm", "embedding",
    "output", "vision", "table",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """One parameter: `rows` outputs by `columns` inputs, `copies` of it where it is one per expert.

    fused: matrices of a layer under one name are one allocation. parts: heads or experts' parts that its divided
    dimension consists of, which ranks cannot cut; 0 where any cut is one. element_bytes: where it is never quantised.
    Source: ColumnParallelLinear, RowParallelLinear and ReplicatedLinear, layers/linear.py (vLLM 0.33.0).
    """

    fused: str
    role: Role
    division: Division
    rows: int
    columns: int
    copies: int = 1
    parts: int = 0
    element_bytes: int | None = None

    @property
    def elements(self) -> int:
        """Elements of all copies."""
        return self.rows * self.columns * self.copies


CacheKind: TypeAlias = Literal["full", "sliding", "chunked", "latent", "state"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateShape:
    """Recurrent state of one sequence in one layer, before it is divided over ranks.

    conv_channels: rows of the rolling window of the convolution, of `conv_length` columns each, more with speculation.
    recurrent_elements: of the state proper, kept in `recurrent_element_bytes` each (0: as the model's type).
    """

    conv_channels: int
    conv_length: int
    recurrent_elements: int
    recurrent_element_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerCache:
    """What one layer keeps: keys and values per token, a latent per token, or a state per sequence.

    window_tokens: of sliding or chunked attention. indexer_head_size: of the sparse-attention indexer's own keys.
    """

    kind: CacheKind
    kv_heads: int = 0
    head_size_k: int = 0
    head_size_v: int = 0
    window_tokens: int = 0
    state: StateShape | None = None
    indexer_head_size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One block: its parameters, and what it keeps; no cache where it keeps nothing or reuses another layer's."""

    matrices: tuple[Matrix, ...]
    caches: tuple[LayerCache, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VllmModel:
    """A model for vLLM, compared by identity so that rules can be remembered per model.

    layers: trunk blocks in order; draft (MTP) layers are loaded only for speculation and are not among them.
    first, last: what only the first and the last pipeline stage hold; tied: the output is the embedding.
    attention_heads, kv_heads: the most of any layer. ff_rows: the widest dense feed-forward, expert_rows that of one
    expert. rotary_bytes: tables of rotary embeddings, on every rank. derived: how it was made where not from its files.
    """

    id: str
    name: str | None
    architecture: str
    scheme: str
    layers: tuple[Layer, ...]
    first: tuple[Matrix, ...]
    last: tuple[Matrix, ...]
    tied: bool
    hidden_size: int
    vocabulary: int
    attention_heads: int
    kv_heads: int
    ff_rows: int
    experts: int = 0
    experts_used: int = 0
    expert_rows: int = 0
    trained_context_tokens: int
    rotary_bytes: int = 0
    is_latent: bool = False
    has_chunked_attention: bool = False
    vision: "Vision | None" = None
    parameters: int
    active_parameters: int
    derived: str | None = None

    @property
    def has_state(self) -> bool:
        """Whether any layer keeps a state per sequence."""
        return any(cache.kind == "state" for layer in self.layers for cache in layer.caches)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vision:
    """An image encoder in front of the model: one Transformer of `layers` blocks, never quantised.

    patches: of the largest image that profiling encodes. merged_columns: inputs of what maps its output to the language
    model's width, after a square layer of `merged_rows` where there is one. other_elements: patches in, positions.
    """

    layers: int
    hidden_size: int
    ff_rows: int
    heads: int
    patches: int
    merged_columns: int
    merged_rows: int
    other_elements: int
