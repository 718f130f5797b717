"""What llama.cpp knows about each model architecture, by the name in `general.architecture`."""

from dataclasses import dataclass
from typing import Literal

from service.core.architectures.window import SlidingWindow

MemoryKind = Literal[
    "none",
    "attention",
    "recurrent",
    "hybrid",
    "hybrid_indexed",
    "indexed",
    "indexed_windowed",
    "block_indexed",
    "compressed",
    "borrowed",
]
RecurrentLayers = Literal["none", "all", "no_kv_heads", "no_kv_heads_no_ff", "interval"]
StateFamily = Literal["mamba1", "mamba2", "delta_net", "kda", "rwkv", "shortconv", "linear_attention"]
IndexedLayers = Literal["trunk", "after_dense_lead", "attention", "compressed", "types"]
IndexerTypes = Literal["unread", "required", "all", "zeros", "glm_5_2"]
LatentAttention = Literal["no", "optional", "required"]
Ties = Literal["never", "possible", "always"]
NeedsTarget = Literal["no", "without_embeddings", "always"]
SpecType = Literal["draft-simple", "draft-mtp", "draft-eagle3", "draft-dflash", "draft-dspark"]
MultiAxisRope = Literal["never", "with_sections", "always"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRule:
    """Recurrent state of an architecture: which layers carry one, and by which family of formula.

    default_interval: every n-th layer attends where the file says neither `attention.recurrent_layers` nor
    `full_attention_interval`.
    keeps_attention: recurrent layers own a KV cache as well.
    has_groups: the file states `ssm.group_count`.
    """

    family: StateFamily
    layers: RecurrentLayers
    default_interval: int | None = None
    keeps_attention: bool = False
    has_groups: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexerRule:
    """Sparse-attention indexer: which layers cache indexer keys.

    layers: those of the trunk; those after the leading dense blocks; those that attend; those with compress ratio 4; or
    those that `attention.indexer.types` marks.
    types: the value of that key where it is missing ("unread": it is never read).
    optional: an indexer exists only where the file states `attention.indexer.top_k` > 0.
    pools_keys: `attention.indexer.kpool` keys are pooled, and gate and pooled value cached beside each key.
    """

    layers: IndexedLayers
    types: IndexerTypes = "unread"
    optional: bool = False
    pools_keys: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """Rules that hold for every file of one architecture.

    memory: the class of cache llama.cpp makes for it (llama_model::create_memory); "attention" is the standard
    K and V cache, two of them where `window` applies.
    mla: reads key_length_mla and value_length_mla: a K-only cache where both are given.
    reads_shared_kv_layers, kv_layers_from_start: layers past that index reuse an earlier layer's K and V.
    ties_embeddings: whether the output matrix may be, or always is, the token embedding.
    token_embd_may_be_output: the reverse: the file may hold only output.weight.
    output_reads_token_embd: no output tensor of its own: the head multiplies the token embedding where it lies (host).
    tensor_split: may run with split mode "tensor".
    state_rollback: keeps draft snapshots of its recurrent state (n_rs_seq).
    flash_attention: False where llama.cpp forces it off.
    encoder: has an encoder graph, so logits rows are always n_batch.
    causal: attention when the file does not say.
    router_layer: one more single-head layer after the blocks.
    draft_layers_alone: an MTP context caches the draft layers only, without recurrent state.
    nextn_needs_tensors: draft layers count only where the file holds them.
    loops: `num_loops` runs the blocks several times, with a cache for each run.
    v_is_latent: the value head is the compressed latent, whatever value_length says.
    halves_full_rope: full-attention layers rotate half of rope.dimension_count.
    head_sizes_without_heads: key_length and value_length count even where the first layer has no heads.
    hyper_connected_output: the output embedding is hyper_connection.count embeddings wide.
    features_are_embedding: `features_length` is the embedding, `embedding_length` the output.
    input_is_output_width: takes embeddings as wide as it gives.
    reads_cycles: block_count is the product of the `hrm.*` cycles.
    reads_ple: `ple.layers` marks layers with n-gram embeddings and a convolution history.
    n_expert_shared_default, n_ff_shexp_from_experts: shared experts where the file does not size them.
    one_expert_is_dense: a single expert means none.
    all_layers_dense: leading_dense_block_count is every layer.
    attn_logit_softcap, final_logit_softcap: soft caps where the file does not say; 0 where there is none.
    needs_target: a draft model that runs only beside its target, always or where it lacks embeddings of its own.
    drafts_as: the --spec-type that files of this architecture are made for; None where they are models of their own.
    unloadable: why llama.cpp cannot load such a file as a language model, and what to do.

    Source: src/llama-arch.cpp:1058-1179, src/llama-model.cpp:2352-2840 and 3020-3211, src/models/*.cpp
    (llama.cpp in llama-cpp-python 0.3.36).
    """

    name: str
    memory: MemoryKind = "attention"
    window: SlidingWindow | None = None
    state: StateRule | None = None
    indexer: IndexerRule | None = None
    mla: LatentAttention = "no"
    reads_shared_kv_layers: bool = False
    kv_layers_from_start: int | None = None
    ties_embeddings: Ties = "possible"
    token_embd_may_be_output: bool = False
    output_reads_token_embd: bool = False
    tensor_split: bool = True
    state_rollback: bool = False
    flash_attention: bool = True
    encoder: bool = False
    causal: bool = True
    multi_axis_rope: MultiAxisRope = "never"
    router_layer: bool = False
    draft_layers_alone: bool = False
    nextn_needs_tensors: bool = False
    loops: bool = False
    v_is_latent: bool = False
    halves_full_rope: bool = False
    head_sizes_without_heads: bool = False
    hyper_connected_output: bool = False
    features_are_embedding: bool = False
    input_is_output_width: bool = False
    reads_cycles: bool = False
    reads_ple: bool = False
    n_expert_shared_default: int = 0
    n_ff_shexp_from_experts: bool = False
    one_expert_is_dense: bool = False
    all_layers_dense: bool = False
    attn_logit_softcap: float = 0.0
    final_logit_softcap: float = 0.0
    needs_target: NeedsTarget = "no"
    drafts_as: SpecType | None = None
    unloadable: str | None = None
