"""What is read for one token: weights that take part, and the cache at the depth of the token."""

from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from math import prod

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.buckets import buckets
from service.core.engines.llamacpp.kv_cache import CacheGroup, KvIndex
from service.core.engines.llamacpp.weights import Weights
from service.core.types import Backend, Model

_SEQUENCE_STATES = frozenset({"recurrent", "ple"})
_COMPRESSOR_STATES = frozenset({"csa_state", "hca_state", "indexer_state"})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReadShape:
    """Facts of a model that reads depend on.

    used_fraction: share of the routed experts that one token uses; n_expert: how many there are, 0 in a dense model.
    elements_per_byte: of all weights that take part. kernels_before[s]: weight matrices of slots before s.
    """

    used_fraction: float
    n_expert: int
    elements_per_byte: float
    kernels_before: tuple[int, ...]

    def expert_fraction(self, tokens: int) -> float:
        """Expected share of the routed experts that `tokens` tokens of one step use together.

        Tokens choose independently: a given expert is missed by all of them with (1 - used share)^tokens.
        """
        return 1 - (1 - self.used_fraction) ** tokens


@lru_cache(maxsize=256)
def read_shape(model: Model, hp: Hparams) -> ReadShape:
    """Facts of `model` for reads, memoised per model object."""
    kernels = [0] * (hp.n_layer_all + 1)
    elements = size_bytes = 0
    sorted_tensors = buckets(model, hp)
    for loaded in sorted_tensors.loaded:
        if loaded.op in ("mul_mat", "mul_mat_id"):
            kernels[loaded.slot] += 1
            elements += prod(loaded.tensor.shape)
            size_bytes += loaded.tensor.size_bytes
    for shared in sorted_tensors.shared:
        if shared.op == "mul_mat":
            kernels[shared.slots[-1]] += 1
    used = max(hp.n_expert_used, default=0)
    return ReadShape(
        used_fraction=used / hp.n_expert if hp.n_expert else 0.0,
        n_expert=hp.n_expert,
        elements_per_byte=elements / size_bytes if size_bytes else 0.0,
        kernels_before=(0, *accumulate(kernels)),
    )


def read_weights_bytes(weights: Weights, shape: ReadShape, *, tokens: int = 1) -> int:
    """Bytes of weights read in one step of `tokens` tokens: look-up tables not, routed experts by their share.

    Source: the graph of one token, src/llama-graph.cpp build_moe_ffn and build_inp_embd
    (llama.cpp in llama-cpp-python 0.3.36).
    """
    resident = weights.weights_bytes - weights.lookup_bytes
    if not weights.expert_bytes:
        return resident
    return resident - weights.expert_bytes + round(weights.expert_bytes * shape.expert_fraction(tokens))


def read_kv_bytes(
    hp: Hparams,
    index: KvIndex,
    first_slot: int,
    end_slot: int,
    backend: Backend,
    *,
    kv_bytes: int,
    depth_tokens: float,
) -> int:  # fmt: skip
    """Bytes of cache and recurrent state read for one token of one stream at `depth_tokens`.

    kv_bytes: what the device holds of these slots' caches, all of it or, where layers are cut, its share.
    """
    if len(index.groups) == 1:
        return round(kv_bytes * read_fraction(hp, index.groups[0], depth_tokens))
    first, end = min(first_slot, hp.n_layer_all), min(end_slot, hp.n_layer_all)
    held = read = 0.0
    for group in index.groups:
        group_bytes = group.bytes_between(first, end, backend)
        held += group_bytes
        read += group_bytes * read_fraction(hp, group, depth_tokens)
    return round(kv_bytes * read / held) if held else 0


def read_fraction(hp: Hparams, group: CacheGroup, depth_tokens: float) -> float:
    """Share of a cache's bytes that one token reads: its own stream's rows up to the depth, or to the window.

    A recurrent or compressor state is read whole, for one sequence and one snapshot.
    """
    if not group.rows:
        return 0.0
    if group.layout.kind in _SEQUENCE_STATES:
        return 1 / group.rows
    if group.layout.kind in _COMPRESSOR_STATES:
        return 1 / group.n_stream
    rows = min(depth_tokens, hp.n_swa) if group.layout.kind == "swa" else depth_tokens
    return min(1.0, rows / group.cells) / group.n_stream


@lru_cache(maxsize=1024)
def attention_flops(hp: Hparams, prompt_tokens: int, cached_tokens: int) -> float:
    """Operations of attention over a whole prompt: every token with all before it, or with those in the window.

    Two products per head, K and V, of two operations each. Source: build_attn_mha, src/llama-graph.cpp
    (llama.cpp in llama-cpp-python 0.3.36).
    """
    total = 0.0
    for il in range(hp.n_layer):
        if hp.is_recr[il] or hp.n_head_kv[il] == 0:
            continue
        depth = cached_tokens + prompt_tokens / 2
        if hp.is_swa[il]:
            depth = min(depth, hp.n_swa)
        total += 2.0 * hp.n_head[il] * (hp.n_embd_head_k(il) + hp.n_embd_head_v(il)) * prompt_tokens * depth
    return total
