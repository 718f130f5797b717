"""KV cache groups: how layers share one pool of blocks, what a block costs, and what a request takes of it."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from service.core.engines.vllm.cache_types import CacheType
from service.core.engines.vllm.model import LayerCache, StateShape, VllmModel
from service.core.problems import Unsupported


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """What one layer keeps on one rank: its page is a block of `block_tokens`, or a whole state."""

    kind: str
    block_tokens: int
    page_bytes: int
    window_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Layers that share a block table, in order: one block of the group is one page of each of its layers."""

    spec: Spec
    layers: tuple[int, ...]
    page_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRules:
    """What the cache depends on besides the model.

    cache: type of keys and values; model_bytes: of an element of the model's own type. speculative_tokens: proposed per
    step. in_flight_tokens: scheduled and not yet settled. align_state: states are kept at block boundaries (prefix
    caching of hybrids). hybrid: groups keep what their kind needs; else windowed layers are kept like full ones.
    """

    tensor_parallel: int
    cache: CacheType
    block_tokens: int = 16
    model_bytes: int = 2
    speculative_tokens: int = 0
    in_flight_tokens: int = 0
    align_state: bool = False
    hybrid: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CachePlan:
    """Groups of a whole model on one rank of its tensor-parallel group, and the tokens of an attention block."""

    groups: tuple[Group, ...]
    block_tokens: int

    def block_bytes(self, layers: range | None = None) -> int:
        """Bytes of one block: those of the widest group, of the layers of one stage."""
        return max((self._group_bytes(group, layers) for group in self.groups), default=0)

    @staticmethod
    def _group_bytes(group: Group, layers: range | None) -> int:
        if layers is None:
            return group.page_bytes
        held = bisect_left(group.layers, layers.stop) - bisect_left(group.layers, layers.start)
        return group.page_bytes * held // len(group.layers)

    def request_blocks(self, tokens: int, rules: CacheRules) -> int:
        """Blocks that one request of `tokens` takes of all groups."""
        return sum(group_blocks(group.spec, tokens, rules) for group in self.groups)


def group_blocks(spec: Spec, tokens: int, rules: CacheRules) -> int:
    """Blocks of one group for one request.

    Source: max_memory_usage_bytes of each spec, v1/kv_cache_interface.py:643,864-955,1135 (0.33.0).
    """
    if spec.kind == "state":
        return (2 if rules.align_state else 1) + rules.speculative_tokens
    if spec.kind == "sliding":
        kept = min(spec.window_tokens - 1 + rules.in_flight_tokens, tokens)
        return -(-kept // spec.block_tokens) + 1
    if spec.kind == "chunked":
        return -(-min(spec.window_tokens + rules.in_flight_tokens, tokens) // spec.block_tokens)
    return -(-tokens // spec.block_tokens)


def rank_kv_heads(kv_heads: int, tensor_parallel: int) -> int:
    """KV heads of one rank: at least one. Source: get_num_kv_heads, config/model.py:1663-1683 (0.33.0)."""
    return max(1, kv_heads // tensor_parallel)


def token_bytes(cache: LayerCache, rules: CacheRules) -> int:
    """Bytes of one token in one layer on one rank; a latent is whole on every rank, and so are an indexer's keys.

    Source: real_page_size_bytes, v1/kv_cache_interface.py:586-617; get_head_size of MLA, config/model.py:1673 (0.33.0).
    """
    if cache.kind == "latent":
        latent = rules.cache.latent_bytes or rules.cache.head_bytes(cache.head_size_k)
        # an indexer keeps its keys as FP8 with one float scale per 128 elements
        indexer = cache.indexer_head_size + 4 * -(-cache.indexer_head_size // 128)
        return latent + indexer
    heads = rank_kv_heads(cache.kv_heads, rules.tensor_parallel)
    return heads * (rules.cache.head_bytes(cache.head_size_k) + rules.cache.head_bytes(cache.head_size_v))


def state_bytes(state: StateShape, rules: CacheRules) -> int:
    """Bytes of one sequence's state in one layer on one rank.

    Source: gated_delta_net_state_shape and mamba2_state_shape, layers/mamba/mamba_utils.py (0.33.0).
    """
    tp = rules.tensor_parallel
    window = state.conv_channels // tp * (state.conv_length + rules.speculative_tokens) * rules.model_bytes
    return window + state.recurrent_elements // tp * (state.recurrent_element_bytes or rules.model_bytes)


@lru_cache(maxsize=1024)
def cache_plan(model: VllmModel, rules: CacheRules) -> CachePlan:
    """Group the layers of a model; raises Unsupported for pages that vLLM cannot unify."""
    block_tokens = _attention_block(model, rules)
    specs: list[tuple[int, Spec]] = []
    for il, layer in enumerate(model.layers):
        specs += [(il, _spec(cache, block_tokens, rules)) for cache in layer.caches]
    specs = _with_draft_layers(specs, model, rules)
    if not specs:
        return CachePlan(groups=(), block_tokens=block_tokens)
    kinds = {(spec.kind, spec.window_tokens) for _, spec in specs}
    if len(kinds) == 1:
        page = sum(spec.page_bytes for _, spec in specs)
        group = Group(spec=specs[0][1], layers=tuple(il for il, _ in specs), page_bytes=page)
        return CachePlan(groups=(group,), block_tokens=block_tokens)
    return CachePlan(groups=tuple(_unified_groups(specs)), block_tokens=block_tokens)


def _with_draft_layers(specs: list[tuple[int, Spec]], model: VllmModel, rules: CacheRules) -> list[tuple[int, Spec]]:
    """Speculation with the model's own draft layer adds one layer of full attention."""
    if not rules.speculative_tokens:
        return specs
    full = next((spec for _, spec in specs if spec.kind == "full"), None)
    return specs if full is None else [*specs, (len(model.layers) - 1, full)]


def _spec(cache: LayerCache, block_tokens: int, rules: CacheRules) -> Spec:
    if cache.state is not None:
        return Spec(kind="state", block_tokens=block_tokens, page_bytes=state_bytes(cache.state, rules))
    kind = cache.kind if rules.hybrid and cache.kind in ("sliding", "chunked") else "full"
    return Spec(
        kind=kind,
        block_tokens=block_tokens,
        page_bytes=block_tokens * token_bytes(cache, rules),
        window_tokens=cache.window_tokens if kind != "full" else 0,
    )


def _attention_block(model: VllmModel, rules: CacheRules) -> int:
    """Tokens of an attention block: enough for its page to hold a state, where the model has any.

    Source: _align_hybrid_block_size, platforms/interface.py:941-1107 (0.33.0).
    """
    states = [cache.state for layer in model.layers for cache in layer.caches if cache.state is not None]
    attention = [cache for layer in model.layers for cache in layer.caches if cache.kind != "state"]
    if not states or not attention:
        return rules.block_tokens
    align = max(rules.block_tokens, 128 if model.is_latent else 16)
    state = max(state_bytes(each, rules) for each in set(states))
    one_token = max(token_bytes(each, rules) for each in set(attention))
    return max(rules.block_tokens, align * -(-state // (align * one_token)))


def _unified_groups(specs: Sequence[tuple[int, Spec]]) -> list[Group]:
    """Groups of equally many layers whose pages are equally large.

    Smaller attention pages get more tokens where that reaches the largest page, else they are padded like states.
    Source: unify_kv_cache_spec_page_size and _get_kv_cache_groups_uniform_page_size, v1/core/kv_cache_planning.py:
    346-408,414-548 (0.33.0).
    """
    page_bytes = max(spec.page_bytes for _, spec in specs)
    by_kind: dict[Spec, list[int]] = {}
    for il, spec in specs:
        by_kind.setdefault(_unified(spec, page_bytes), []).append(il)
    fewest, most = min(map(len, by_kind.values())), max(map(len, by_kind.values()))
    size = most if most < 1.5 * fewest else fewest
    groups = []
    for spec, layers in by_kind.items():
        count = -(-len(layers) // size)
        groups += [
            Group(spec=spec, layers=_padded(layers[index::count], size), page_bytes=size * page_bytes)
            for index in range(count)
        ]
    return groups


def _padded(layers: list[int], size: int) -> tuple[int, ...]:
    """Layers of a group with its padding, which lies where its last layer does."""
    return (*layers, *layers[-1:] * (size - len(layers)))


def _unified(spec: Spec, page_bytes: int) -> Spec:
    if spec.page_bytes == page_bytes:
        return spec
    if spec.kind != "state" and page_bytes % spec.page_bytes == 0:
        ratio = page_bytes // spec.page_bytes
        return replace(spec, block_tokens=spec.block_tokens * ratio, page_bytes=page_bytes)
    if spec.kind == "latent":
        raise Unsupported("vLLM cannot unify the cache pages of this model's layers.", fields=("model", "engine.name"))
    return replace(spec, page_bytes=page_bytes)


@lru_cache(maxsize=4096)
def caches_of(model: VllmModel, blocks: range) -> tuple[tuple[LayerCache, int], ...]:
    """What the layers of a stage keep, each kind with its number of layers."""
    counts: dict[LayerCache, int] = {}
    for layer in model.layers[blocks.start : blocks.stop]:
        for cache in layer.caches:
            counts[cache] = counts.get(cache, 0) + 1
    return tuple(counts.items())


def kinds_of(plan: CachePlan) -> Mapping[str, int]:
    """Groups by kind, for explanations."""
    counts: dict[str, int] = {}
    for group in plan.groups:
        counts[group.spec.kind] = counts.get(group.spec.kind, 0) + 1
    return counts
