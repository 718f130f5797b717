"""What is read for one token: weights that take part, and the cache at the depth of the token."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from math import prod

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.buckets import buckets
from service.core.engines.llamacpp.kv_cache import CacheGroup, KvIndex
from service.core.engines.llamacpp.weights import Weights
from service.core.links import hidden_state_bytes
from service.core.timing.work import Weights as WeightFacts
from service.core.types import Backend, Model, Tensor, TensorType

_HALF_PRECISION = frozenset({"f16", "bf16"})
_SUPERBLOCK_ELEMENTS = 256
_SEQUENCE_STATES = frozenset({"recurrent", "ple"})
_COMPRESSOR_STATES = frozenset({"csa_state", "hca_state", "indexer_state"})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReadShape:
    """Facts of a model that reads depend on.

    weights: the part that times depend on. kernels_before[s], expert_kernels_before[s]: weight matrices and stacks of
    experts of the slots before s. attention_before[s], windowed_before[s]: operations of attention for one token and
    one token before it, in all layers before s that see everything, and in those that see a window. row_bytes: inputs
    and results of all matrices for one token.
    """

    weights: WeightFacts
    n_expert: int
    kernels_before: tuple[int, ...]
    expert_kernels_before: tuple[int, ...]
    attention_before: tuple[float, ...]
    windowed_before: tuple[float, ...]
    row_bytes: int

    def attention_flops(self, first_slot: int, end_slot: int, depth_tokens: float, window_tokens: int) -> float:
        """Operations of attention for one token at a depth in the layers of these slots.

        Two products per head, K and V, of two operations each. Source: build_attn_mha, src/llama-graph.cpp
        (llama.cpp in llama-cpp-python 0.3.36).
        """
        full, windowed = self.attention_before, self.windowed_before
        return depth_tokens * (full[end_slot] - full[first_slot]) + min(depth_tokens, window_tokens) * (
            windowed[end_slot] - windowed[first_slot]
        )


@lru_cache(maxsize=256)
def read_shape(model: Model, hp: Hparams) -> ReadShape:
    """Facts of `model` for reads, memoised per model object."""
    slots = hp.n_layer_all + 1
    kernels, expert_kernels = [0] * slots, [0] * slots
    matrices = [(loaded.slot, loaded.tensor, loaded.op) for loaded in buckets(model, hp).loaded]
    matrices += [(shared.slots[-1], shared.tensor, shared.op) for shared in buckets(model, hp).shared]
    dense, experts, row_elements = [], [], 0
    for slot, tensor, op in matrices:
        if op == "mul_mat":
            kernels[slot] += 1
            dense.append(tensor)
        elif op == "mul_mat_id":
            expert_kernels[slot] += 1
            experts.append(tensor)
        else:
            continue
        row_elements += sum(tensor.shape[:2])
    full, windowed = _attention(hp)
    return ReadShape(
        weights=_weight_facts(hp, dense, experts),
        n_expert=hp.n_expert,
        kernels_before=(0, *accumulate(kernels)),
        expert_kernels_before=(0, *accumulate(expert_kernels)),
        attention_before=(0.0, *accumulate(full)),
        windowed_before=(0.0, *accumulate(windowed)),
        row_bytes=hidden_state_bytes(row_elements),
    )


def _weight_facts(hp: Hparams, dense: Sequence[Tensor], experts: Sequence[Tensor]) -> WeightFacts:
    used = max(hp.n_expert_used, default=0)
    shares = _type_fractions((*dense, *experts))
    return WeightFacts(
        used_fraction=used / hp.n_expert if hp.n_expert else 0.0,
        dense_flops_per_byte=_flops_per_byte(dense),
        expert_flops_per_byte=_flops_per_byte(experts),
        half_precision=sum([share for each, share in shares if each.name in _HALF_PRECISION]) > 0.5,
        superblocks=sum([share for each, share in shares if each.block_elements == _SUPERBLOCK_ELEMENTS]) > 0.5,
        type_fractions=shares,
    )


def _type_fractions(tensors: Sequence[Tensor]) -> tuple[tuple[TensorType, float], ...]:
    """Shares of the bytes of these tensors by type."""
    found: dict[TensorType, int] = {}
    for tensor in tensors:
        found[tensor.type] = found.get(tensor.type, 0) + tensor.size_bytes
    every = sum(found.values())
    return tuple([(each, size_bytes / every) for each, size_bytes in found.items()])


def _flops_per_byte(tensors: Sequence[Tensor]) -> float:
    """Two operations for every weight, by the bytes it is stored in."""
    size_bytes = sum([tensor.size_bytes for tensor in tensors])
    return 2.0 * sum([prod(tensor.shape) for tensor in tensors]) / size_bytes if size_bytes else 0.0


def _attention(hp: Hparams) -> tuple[list[float], list[float]]:
    """Operations per token and token before it of every slot: layers that see everything, and those with a window."""
    full, windowed = [0.0] * (hp.n_layer_all + 1), [0.0] * (hp.n_layer_all + 1)
    for il in range(hp.n_layer):
        if hp.is_recr[il] or hp.n_head_kv[il] == 0:
            continue
        flops = 2.0 * hp.n_head[il] * (hp.n_embd_head_k(il) + hp.n_embd_head_v(il))
        (windowed if hp.is_swa[il] else full)[il] = flops
    return full, windowed


def read_weights_bytes(weights: Weights, shape: ReadShape, *, tokens: int = 1) -> int:
    """Bytes of weights read in one step of `tokens` tokens: look-up tables not, routed experts by their share.

    Source: the graph of one token, src/llama-graph.cpp build_moe_ffn and build_inp_embd
    (llama.cpp in llama-cpp-python 0.3.36).
    """
    resident = weights.weights_bytes - weights.lookup_bytes
    if not weights.expert_bytes:
        return resident
    return resident - weights.expert_bytes + round(weights.expert_bytes * shape.weights.expert_fraction(tokens))


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
