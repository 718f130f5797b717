"""Sizes of a model's special parts: latents, experts, states, indexers, compression."""

from typing import TypedDict

from service.core.architectures.architecture import Architecture
from service.core.architectures.metadata import Metadata, unreadable
from service.core.architectures.shape import HeadSizes, Layers, blocks, spread

MAX_EXPERTS = 1024


class Latents(TypedDict):
    """Compressed (latent) attention."""

    n_lora_q: int
    n_lora_kv: int
    n_embd_head_k_mla: int
    n_embd_head_v_mla: int
    n_lora_kv_swa: int
    n_embd_head_k_mla_swa: int
    n_embd_head_v_mla_swa: int


def read_latents(meta: Metadata, arch: Architecture) -> Latents:
    """Ranks and head sizes of multi-head latent attention.

    Source: src/models/deepseek2.cpp, deepseek32.cpp, glm-dsa.cpp, dots3note.cpp, kimi-linear.cpp
    (llama.cpp in llama-cpp-python 0.3.36).
    """
    default = None if arch.mla == "required" else 0
    windowed = arch.memory == "indexed_windowed"
    return Latents(
        n_lora_q=meta.count("attention.q_lora_rank", 0),
        n_lora_kv=meta.count("attention.kv_lora_rank", 0),
        n_embd_head_k_mla=meta.count("attention.key_length_mla", default) if arch.mla != "no" else 0,
        n_embd_head_v_mla=meta.count("attention.value_length_mla", default) if arch.mla != "no" else 0,
        n_lora_kv_swa=meta.count("attention.kv_lora_rank_swa") if windowed else 0,
        n_embd_head_k_mla_swa=meta.count("attention.key_length_mla_swa") if windowed else 0,
        n_embd_head_v_mla_swa=meta.count("attention.value_length_mla_swa") if windowed else 0,
    )


class Experts(TypedDict):
    """Mixture of experts."""

    n_expert: int
    n_expert_used: tuple[int, ...]
    n_expert_shared: int
    n_expert_groups: int
    n_group_used: int
    n_ff_exp: tuple[int, ...]
    n_ff_shexp: int
    n_ff_chexp: int
    n_layer_dense_lead: int
    n_moe_layer_step: int
    moe_every_n_layers: int
    moe_latent_size: int
    n_expert_latent: int


def read_experts(meta: Metadata, arch: Architecture, layers: Layers) -> Experts:
    """Experts per layer, how many each token uses, and their widths.

    Source: src/llama-model.cpp:1331-1383 and load_arch_hparams in src/models/*.cpp
    (llama.cpp in llama-cpp-python 0.3.36).
    """
    n_blocks = blocks(layers)
    zeros = (0,) * n_blocks
    n_expert = meta.count("expert_count", 0)
    n_used = meta.per_layer("expert_used_count", n_blocks, zeros)
    if arch.one_expert_is_dense and n_expert <= 1:
        n_expert, n_used = 0, zeros
    if n_expert > MAX_EXPERTS or max(n_used) > n_expert or (n_expert > 0 and max(n_used) == 0):
        raise unreadable(meta.key("expert_used_count"), f"is {max(n_used)} of {n_expert} experts")
    n_shared = meta.count("expert_shared_count", arch.n_expert_shared_default)
    n_ff_exp = meta.per_layer("expert_feed_forward_length", n_blocks, zeros)
    n_ff_shexp = meta.count("expert_shared_feed_forward_length", 0)
    if n_ff_shexp == 0 and arch.n_ff_shexp_from_experts:
        n_ff_shexp = n_ff_exp[0] * max(1, n_shared)
    lead = (
        layers["n_layer_all"] - layers["n_layer_nextn"]
        if arch.all_layers_dense
        else meta.count("leading_dense_block_count", 0)
    )
    return Experts(
        n_expert=n_expert,
        n_expert_used=spread(n_used, layers, 0),
        n_expert_shared=n_shared,
        n_expert_groups=meta.count("expert_group_count", 0),
        n_group_used=meta.count("expert_group_used_count", 0),
        n_ff_exp=spread(n_ff_exp, layers, 0),
        n_ff_shexp=n_ff_shexp,
        n_ff_chexp=meta.count("expert_chunk_feed_forward_length", 0),
        n_layer_dense_lead=lead,
        n_moe_layer_step=meta.count("interleave_moe_layer_step", 0),
        moe_every_n_layers=meta.count("moe_every_n_layers", 0),
        moe_latent_size=meta.count("moe_latent_size", 0),
        n_expert_latent=meta.count("expert_latent_length", 0),
    )


class State(TypedDict):
    """Recurrent state."""

    ssm_d_conv: int
    ssm_d_inner: int
    ssm_d_state: int
    ssm_dt_rank: int
    ssm_n_group: int
    n_embd_head_kda: int
    n_embd_head_la: int
    n_shortconv_l_cache: int
    wkv_head_size: int
    token_shift_count: int


def read_state(meta: Metadata, arch: Architecture, sizes: HeadSizes) -> State:
    """Sizes of the recurrent state by family; only the keys of that family are read.

    Source: load_arch_hparams in src/models/mamba.cpp, mamba2.cpp, qwen3next.cpp, kimi-linear.cpp, rwkv6.cpp, lfm2.cpp,
    minimax-01.cpp (llama.cpp in llama-cpp-python 0.3.36).
    """
    family = arch.state.family if arch.state is not None else None
    scan = family in ("mamba1", "mamba2", "delta_net")
    groups = scan and arch.state is not None and arch.state.has_groups
    return State(
        ssm_d_conv=meta.count("ssm.conv_kernel") if scan or family == "kda" else 0,
        ssm_d_inner=meta.count("ssm.inner_size") if scan else 0,
        ssm_d_state=meta.count("ssm.state_size") if scan else 0,
        ssm_dt_rank=meta.count("ssm.time_step_rank") if scan else 0,
        ssm_n_group=meta.count("ssm.group_count") if groups else 0,
        n_embd_head_kda=meta.count("kda.head_dim") if family == "kda" else 0,
        n_embd_head_la=sizes["n_embd_head_k_full"] if family == "linear_attention" else 0,
        n_shortconv_l_cache=meta.count("shortconv.l_cache") if family == "shortconv" else 0,
        wkv_head_size=meta.count("wkv.head_size") if family == "rwkv" else 0,
        token_shift_count=meta.count("token_shift_count", 2) if family == "rwkv" else 2,
    )


class Indexer(TypedDict):
    """Sparse-attention indexer."""

    indexer_n_head: int
    indexer_head_size: int
    indexer_top_k: int
    indexer_kpool: int
    indexer_block_size: int


def read_indexer(meta: Metadata, arch: Architecture) -> Indexer:
    """Heads, key size and selection of the indexer; zeros where the architecture has none.

    Source: src/models/deepseek32.cpp, minimax-m3.cpp, glm5-next.cpp, hy-v4.cpp (llama.cpp in llama-cpp-python 0.3.36).
    """
    if arch.indexer is None:
        return Indexer(indexer_n_head=0, indexer_head_size=0, indexer_top_k=0, indexer_kpool=0, indexer_block_size=0)
    default = 0 if arch.indexer.optional else None
    return Indexer(
        indexer_n_head=meta.count("attention.indexer.head_count", default),
        indexer_head_size=meta.count("attention.indexer.key_length", default),
        indexer_top_k=meta.count("attention.indexer.top_k", default),
        indexer_kpool=meta.count("attention.indexer.kpool") if arch.indexer.pools_keys else 0,
        indexer_block_size=meta.count("attention.indexer.block_size", 0),
    )


class Compression(TypedDict):
    """Hyper-connections, compressed caches and n-gram embeddings."""

    dsv4_compress_ratios: tuple[int, ...]
    dsv4_hc_mult: int
    dsv4_o_group_count: int
    dsv4_o_lora_rank: int
    dsv4_hash_layer_count: int
    hc_low_rank: int
    is_ple: tuple[bool, ...]
    ple_ngram_size: int
    ple_n_heads: int
    ple_conv_kernel: int
    n_embd_per_layer: int


def read_compression(meta: Metadata, arch: Architecture, layers: Layers) -> Compression:
    """Compression ratio per layer, hyper-connection streams and per-layer embeddings.

    Source: src/models/deepseek4.cpp:43-68, qwen4exp.cpp:47-140, gemma4.cpp (llama.cpp in llama-cpp-python 0.3.36).
    """
    n_layers = layers["n_layer_all"]
    ratios = meta.array("attention.compress_ratios") or (0,) * n_layers
    if len(ratios) < n_layers or (arch.memory == "compressed" and not meta.has("attention.compress_ratios")):
        raise unreadable(meta.key("attention.compress_ratios"), "is missing or shorter than the block count")
    marked = (meta.array("ple.layers") or ()) if arch.reads_ple else ()
    if any(il >= n_layers for il in marked):
        raise unreadable(meta.key("ple.layers"), "names a layer the model does not have")
    ngram = meta.count("ple.ngram_size") if marked else 0
    return Compression(
        dsv4_compress_ratios=ratios[:n_layers],
        dsv4_hc_mult=meta.count("hyper_connection.count", 0),
        dsv4_o_group_count=meta.count("attention.output_group_count", 0),
        dsv4_o_lora_rank=meta.count("attention.output_lora_rank", 0),
        dsv4_hash_layer_count=meta.count("hash_layer_count", 0),
        hc_low_rank=meta.count("hyper_connection.low_rank", 0),
        is_ple=tuple(il in marked for il in range(n_layers)),
        ple_ngram_size=ngram,
        ple_n_heads=max(ngram - 1, 0) * meta.count("ple.heads_per_ngram") if marked else 0,
        ple_conv_kernel=meta.count("ple.conv_kernel") if marked else 0,
        n_embd_per_layer=meta.count("embedding_length_per_layer_input", 0),
    )


class Cycles(TypedDict):
    """Nested loops over two stacks of layers."""

    n_hrm_layers_per_stack: int
    n_hrm_h_cycles: int
    n_hrm_l_cycles: int


def read_cycles(meta: Metadata, arch: Architecture, layers: Layers) -> Cycles:
    """Layers per stack and cycles, whose product must be the block count.

    Source: src/models/hrm-text.cpp:3-23 (llama.cpp in llama-cpp-python 0.3.36).
    """
    if not arch.reads_cycles:
        return Cycles(n_hrm_layers_per_stack=0, n_hrm_h_cycles=0, n_hrm_l_cycles=0)
    stack, high, low = (meta.count(f"hrm.{name}") for name in ("layers_per_stack", "h_cycles", "l_cycles"))
    if stack * high * (low + 1) != layers["n_layer_all"] - layers["n_layer_nextn"] or low == 0:
        raise unreadable(meta.key("block_count"), f"is not {stack} layers x {high} x ({low} + 1) cycles")
    return Cycles(n_hrm_layers_per_stack=stack, n_hrm_h_cycles=high, n_hrm_l_cycles=low)


class Sizes(Latents, Experts, State, Indexer, Compression, Cycles):
    """All special parts."""


def read_sizes(meta: Metadata, arch: Architecture, layers: Layers, head_sizes: HeadSizes) -> Sizes:
    """Every special part of a model; zeros for those it does not have."""
    return Sizes(
        **read_latents(meta, arch),
        **read_experts(meta, arch, layers),
        **read_state(meta, arch, head_sizes),
        **read_indexer(meta, arch),
        **read_compression(meta, arch, layers),
        **read_cycles(meta, arch, layers),
    )
