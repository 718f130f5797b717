"""Bytes of weights that one rank holds: what tensor parallelism divides, what every rank has whole."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from service.core.engines.vllm.allocation import allocated_bytes
from service.core.engines.vllm.formats import FORMATS, Format
from service.core.engines.vllm.kernels import padded_expert_shape
from service.core.engines.vllm.model import Layer, Matrix, Vision, VllmModel
from service.core.units import pad

VOCABULARY_MULTIPLE = 64
"""Rows that a vocabulary is padded to. Source: DEFAULT_VOCAB_PADDING_SIZE, layers/vocab_parallel_embedding.py:36."""
_SIXTEEN_BIT_BYTES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharding:
    """How one replica is divided.

    tensor_parallel: ranks that share every layer. expert_parallel: ranks that whole experts are distributed over, 0
    where each expert is divided instead, over expert_tensor_parallel ranks (those of all replicas).
    """

    tensor_parallel: int = 1
    expert_parallel: int = 0
    expert_tensor_parallel: int = 1
    capability: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """Bytes of some matrices on one rank: as they are stored, as they are allocated, and what a token reads of them."""

    stored_bytes: int = 0
    allocated_bytes: int = 0
    active_bytes: int = 0
    expert_bytes: int = 0
    kernels: int = 0

    def __add__(self, other: "Shard") -> "Shard":
        return Shard(
            stored_bytes=self.stored_bytes + other.stored_bytes,
            allocated_bytes=self.allocated_bytes + other.allocated_bytes,
            active_bytes=self.active_bytes + other.active_bytes,
            expert_bytes=self.expert_bytes + other.expert_bytes,
            kernels=self.kernels + other.kernels,
        )

    def __sub__(self, other: "Shard") -> "Shard":
        return Shard(
            stored_bytes=self.stored_bytes - other.stored_bytes,
            allocated_bytes=self.allocated_bytes - other.allocated_bytes,
            active_bytes=self.active_bytes - other.active_bytes,
            expert_bytes=self.expert_bytes - other.expert_bytes,
            kernels=self.kernels - other.kernels,
        )


def rank_shape(matrix: Matrix, sharding: Sharding) -> tuple[int, int, int]:
    """Rows, columns and copies of one matrix on one rank.

    KV heads are repeated where there are more ranks than heads. Experts are divided like other matrices, or whole
    experts are distributed, the first ranks getting one more.
    Source: QKVParallelLinear, layers/linear.py:1065-1071; VocabParallelEmbedding; expert_map_manager.py (0.33.0).
    """
    tp, rows, columns, copies = sharding.tensor_parallel, matrix.rows, matrix.columns, matrix.copies
    if matrix.role == "experts":
        if sharding.expert_parallel:
            return rows, columns, -(-copies // sharding.expert_parallel)
        tp = sharding.expert_tensor_parallel
    if matrix.division == "vocabulary":
        return pad(rows, VOCABULARY_MULTIPLE) // tp, columns, copies
    if matrix.division == "kv_heads" and matrix.parts:
        return rows // matrix.parts * max(1, matrix.parts // tp), columns, copies
    if matrix.division in ("column", "kv_heads"):
        return -(-rows // tp), columns, copies
    if matrix.division == "row":
        return rows, -(-columns // tp), copies
    return rows, columns, copies


def shard(matrices: Iterable[Matrix], scheme: Format, sharding: Sharding, used_share: float) -> Shard:
    """Bytes of matrices on one rank; those of one fused name are allocated together."""
    stored: dict[tuple[str, str], int] = {}
    scales = experts = active = 0
    for matrix in matrices:
        storage = _storage(matrix, scheme)
        rows, columns, copies = rank_shape(matrix, sharding)
        if matrix.role == "experts":
            rows, columns = padded_expert_shape(matrix, rows, columns, storage, sharding.capability)
        if matrix.element_bytes is not None:
            size = rows * columns * copies * matrix.element_bytes
        else:
            size = storage.bytes_of(rows, columns) * copies
            scales += storage.scale_bytes_of(rows, columns) * copies
        key = (matrix.fused, storage.name) if columns > 1 else (f"{matrix.fused} {rows}", "vector")
        stored[key] = stored.get(key, 0) + size
        if matrix.role == "experts":
            experts += size
            active += round(size * used_share)
        elif matrix.role != "embedding":
            active += size
    total = sum(stored.values()) + scales
    return Shard(
        stored_bytes=total,
        allocated_bytes=sum(allocated_bytes(size) for size in stored.values()) + scales,
        active_bytes=active + round(scales * (used_share if experts else 1.0)),
        expert_bytes=experts,
        kernels=len({fused for fused, storage in stored if storage != "vector"}),
    )


def _storage(matrix: Matrix, scheme: Format) -> Format:
    if scheme.holds(matrix) and matrix.element_bytes is None:
        return scheme
    other = FORMATS[scheme.other]
    return other if other.method is None or other.holds(matrix) else FORMATS["BF16"]


@lru_cache(maxsize=4096)
def layer_shard(layer: Layer, scheme: Format, sharding: Sharding, used_share: float) -> Shard:
    """Bytes of one block on one rank; blocks of one kind are summed once."""
    return shard(layer.matrices, scheme, sharding, used_share) + _widened_latent(layer, scheme, sharding)


def _widened_latent(layer: Layer, scheme: Format, sharding: Sharding) -> Shard:
    """Copies in 16 bits of what widens the latent, where the checkpoint has it quantised.

    Source: process_weights_after_loading, layers/attention/mla_attention.py:1347-1349 (0.33.0).
    """
    matrices = [each for each in layer.matrices if each.fused == "kv_b"]
    if not any(_storage(each, scheme).method for each in matrices):
        return Shard()
    shapes = (rank_shape(each, sharding) for each in matrices)
    size = _SIXTEEN_BIT_BYTES * sum(rows * columns * copies for rows, columns, copies in shapes)
    return Shard(stored_bytes=size, allocated_bytes=size)


def shared_shard(model: VllmModel) -> Shard:
    """What every stage holds: tables of rotary embeddings."""
    return Shard(stored_bytes=model.rotary_bytes, allocated_bytes=allocated_bytes(model.rotary_bytes))


def first_shard(model: VllmModel, sharding: Sharding) -> Shard:
    """What the first stage holds besides its blocks: the embedding, and the encoder of images."""
    total = shard(model.first, FORMATS[model.scheme], sharding, 1.0)
    if model.vision is None:
        return total
    size = vision_bytes(model.vision, model.hidden_size, sharding.tensor_parallel)
    return total + Shard(stored_bytes=size, allocated_bytes=size)


def last_shard(model: VllmModel, sharding: Sharding, *, holds_embedding: bool) -> Shard:
    """What the last stage holds besides its blocks: the norm and the output, which may be the embedding again.

    holds_embedding: it is the first stage too, so a tied output needs no copy.
    Source: LlamaModel and LlamaForCausalLM, models/llama.py:377-400,500-517 (0.33.0).
    """
    scheme = FORMATS[model.scheme]
    total = shard(model.last, scheme, sharding, 1.0)
    if not model.tied:
        return total
    copy = shard([matrix for matrix in model.first if matrix.fused == "embed"], scheme, sharding, 1.0)
    return total + Shard(
        stored_bytes=0 if holds_embedding else copy.stored_bytes,
        allocated_bytes=0 if holds_embedding else copy.allocated_bytes,
        active_bytes=copy.stored_bytes,
        kernels=1,
    )


def vision_bytes(vision: Vision, hidden_size: int, tensor_parallel: int) -> int:
    """Bytes of an image encoder on one rank: its blocks are divided, what maps patches in and out is not.

    Source: SiglipEncoderLayer and Qwen3_VisionBlock, models/siglip.py and models/qwen3_vl.py (0.33.0).
    """
    block = 4 * vision.hidden_size**2 + 2 * vision.hidden_size * vision.ff_rows
    projector = vision.merged_columns * (vision.merged_rows + hidden_size)
    divided = vision.layers * block // tensor_parallel
    return _SIXTEEN_BIT_BYTES * (divided + projector + vision.other_elements)
