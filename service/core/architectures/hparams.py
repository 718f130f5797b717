"""The shape of a model as llama.cpp derives it from metadata: llama_hparams."""

from dataclasses import dataclass
from functools import lru_cache

from service.core.architectures.architecture import Architecture
from service.core.architectures.embedding import pooling_type, positions_per_token, read_embedding, runs_alone, soft_cap
from service.core.architectures.facts import architecture
from service.core.architectures.layer_kinds import (
    read_indexer_flags,
    read_layers_with_kv,
    read_recurrent,
    read_windows,
)
from service.core.architectures.layer_switches import read_layer_switches
from service.core.architectures.metadata import Metadata
from service.core.architectures.shape import read_head_sizes, read_heads, read_layers
from service.core.architectures.sizes import read_sizes
from service.core.architectures.window import SwaType
from service.core.problems import Unsupported
from service.core.types import Model


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Hparams:
    """Shape of one model; field names are llama_hparams' own, so that rules can be compared with their source.

    Layers 0 to n_layer_all - 1: n_layer trunk blocks, then n_layer_nextn draft (MTP) or router layers. Tuples have one
    entry per layer. Sizes count elements; 0 means that the model has no such part.

    runs_alone: False for a draft that borrows from its target. n_vocab: rows of the logits.
    n_embd_head_*_full, n_embd_head_*_swa: head sizes of full and sliding-window layers; n_rot_*: their rotated part.
    n_embd_head_*_mla: head sizes before compression into the latent.
    n_layer_kv_from_start: layers from that index on reuse another layer's cache; -1 where all own one.
    is_indexer_full: layer computes its own top-k. ple_conv_state: rows of n-gram history of PLE layers.
    n_embd_head_la: head size of linear attention. n_embd_per_layer: per-layer input embeddings.
    deepstack_mapping: part of the input that a layer adds, or -1. rope_pattern: 0 where a layer does not rotate.
    swiglu_clamp_*: limits of the gated units of routed and shared experts; empty where the file has none.
    n_loops: how often the blocks of the file are run; n_layer counts the loops.

    Source: src/llama-hparams.h:47-404 (llama.cpp in llama-cpp-python 0.3.36).
    """

    arch: Architecture
    runs_alone: bool = True

    n_ctx_train: int
    n_vocab: int
    n_embd: int
    n_embd_inp: int
    n_embd_out: int
    n_layer_all: int
    n_layer_nextn: int
    router_layer: int = -1
    n_loops: int = 1
    dec_n_layer: int = 0
    causal_attn: bool = True
    n_pos_per_embd: int = 1
    pooling_type: int = 0
    n_cls_out: int = 1

    n_head: tuple[int, ...]
    n_head_kv: tuple[int, ...]
    n_ff: tuple[int, ...]
    n_embd_head_k_full: int
    n_embd_head_v_full: int
    n_embd_head_k_swa: int
    n_embd_head_v_swa: int
    n_rot_full: int
    n_rot_swa: int

    swa_type: SwaType = "none"
    n_swa: int = 0
    is_swa: tuple[bool, ...]
    n_layer_kv_from_start: int = -1

    n_lora_q: int = 0
    n_lora_kv: int = 0
    n_embd_head_k_mla: int = 0
    n_embd_head_v_mla: int = 0
    n_lora_kv_swa: int = 0
    n_embd_head_k_mla_swa: int = 0
    n_embd_head_v_mla_swa: int = 0

    n_expert: int = 0
    n_expert_used: tuple[int, ...]
    n_expert_shared: int = 0
    n_expert_groups: int = 0
    n_group_used: int = 0
    n_ff_exp: tuple[int, ...]
    n_ff_shexp: int = 0
    n_ff_chexp: int = 0
    n_layer_dense_lead: int = 0
    n_moe_layer_step: int = 0
    moe_every_n_layers: int = 0
    moe_latent_size: int = 0
    n_expert_latent: int = 0

    is_recr: tuple[bool, ...]
    ssm_d_conv: int = 0
    ssm_d_inner: int = 0
    ssm_d_state: int = 0
    ssm_dt_rank: int = 0
    ssm_n_group: int = 0
    n_embd_head_kda: int = 0
    n_embd_head_la: int = 0
    n_shortconv_l_cache: int = 0
    wkv_head_size: int = 0
    token_shift_count: int = 2

    indexer_n_head: int = 0
    indexer_head_size: int = 0
    indexer_top_k: int = 0
    indexer_kpool: int = 0
    indexer_block_size: int = 0
    is_indexer_full: tuple[bool, ...]

    dsv4_compress_ratios: tuple[int, ...]
    dsv4_hc_mult: int = 0
    dsv4_o_group_count: int = 0
    dsv4_o_lora_rank: int = 0
    dsv4_hash_layer_count: int = 0
    hc_low_rank: int = 0

    is_ple: tuple[bool, ...]
    ple_ngram_size: int = 0
    ple_n_heads: int = 0
    ple_conv_kernel: int = 0
    n_embd_per_layer: int = 0
    n_deepstack_layers: int = 0
    deepstack_mapping: tuple[int, ...] = ()
    rope_pattern: tuple[int, ...] = ()
    swiglu_clamp_exp: tuple[float, ...] = ()
    swiglu_clamp_shexp: tuple[float, ...] = ()
    attn_res_block_size: int = 0
    n_hrm_layers_per_stack: int = 0
    n_hrm_h_cycles: int = 0
    n_hrm_l_cycles: int = 0

    f_max_alibi_bias: float = 0.0
    f_attn_logit_softcapping: float = 0.0
    f_final_logit_softcapping: float = 0.0

    @property
    def n_layer(self) -> int:
        """Trunk layers, without the draft layers."""
        return self.n_layer_all - self.n_layer_nextn

    @property
    def is_mla(self) -> bool:
        """Whether attention caches one compressed latent per token instead of K and V."""
        return self.n_embd_head_k_mla != 0 and self.n_embd_head_v_mla != 0

    def n_embd_head_k(self, il: int = 0) -> int:
        """Key head size of layer `il`."""
        return self.n_embd_head_k_swa if self.is_swa[il] else self.n_embd_head_k_full

    def n_embd_head_v(self, il: int = 0) -> int:
        """Value head size of layer `il`."""
        return self.n_embd_head_v_swa if self.is_swa[il] else self.n_embd_head_v_full

    def n_embd_k_gqa(self, il: int = 0) -> int:
        """Key elements per token of layer `il`, over all its KV heads."""
        return self.n_embd_head_k(il) * self.n_head_kv[il]

    def n_embd_v_gqa(self, il: int = 0) -> int:
        """Value elements per token of layer `il`, over all its KV heads."""
        return self.n_embd_head_v(il) * self.n_head_kv[il]

    @property
    def n_embd_v_gqa_max(self) -> int:
        """The widest value row over all layers, draft layers included."""
        return max(self.n_embd_v_gqa(il) for il in range(self.n_layer_all))

    def has_kv(self, il: int) -> bool:
        """Whether layer `il` owns a cache rather than reusing an earlier layer's."""
        return self.n_layer_kv_from_start < 0 or il < self.n_layer_kv_from_start

    @property
    def n_embd_r(self) -> int:
        """Elements of the rolling (convolution or token-shift) state of one sequence in one layer.

        Source: llama_hparams::n_embd_r, src/llama-hparams.cpp:208-236 (llama.cpp in llama-cpp-python 0.3.36).
        """
        if self.wkv_head_size:
            return self.token_shift_count * self.n_embd
        if self.n_shortconv_l_cache:
            return self.n_embd * (self.n_shortconv_l_cache - 1)
        kernel = self.ssm_d_conv - 1 if self.ssm_d_conv > 0 else 0
        if self.n_embd_head_kda:
            return 3 * (kernel if self.ssm_d_conv > 0 else 3) * self.n_head[0] * self.n_embd_head_kda
        return kernel * (self.ssm_d_inner + 2 * self.ssm_n_group * self.ssm_d_state)

    @property
    def n_embd_s(self) -> int:
        """Elements of the recurrent state of one sequence in one layer.

        Source: llama_hparams::n_embd_s, src/llama-hparams.cpp:238-263 (llama.cpp in llama-cpp-python 0.3.36).
        """
        if self.wkv_head_size:
            return self.n_embd * self.wkv_head_size
        head = self.n_embd_head_kda or self.n_embd_head_la
        return head * head * self.n_head[0] if head else self.ssm_d_state * self.ssm_d_inner

    @property
    def ple_conv_state(self) -> int:
        """Elements of n-gram convolution history of one sequence in a PLE layer.

        Source: llama_hparams::ple_conv_state, src/llama-hparams.cpp:273-280 (llama.cpp in llama-cpp-python 0.3.36).
        """
        if not self.ple_n_heads or not self.ple_conv_kernel:
            return 0
        return (self.ple_conv_kernel - 1) * self.ple_ngram_size * self.dsv4_hc_mult * self.n_embd


@lru_cache(maxsize=256)
def read_hparams(model: Model) -> Hparams:
    """Shape of `model`, from its metadata and, where the metadata leaves it to them, its tensors.

    Memoised per model object. Raises `Unsupported` for an architecture that is unknown or has no loader and
    `UnreadableModel` for missing or absurd values.

    Source: llama_model_base::load_hparams, src/llama-model.cpp:1298-1503, and load_arch_hparams, src/models/*.cpp
    (llama.cpp in llama-cpp-python 0.3.36).
    """
    arch = architecture(model.architecture)
    if arch.unloadable is not None:
        raise Unsupported(f"architecture {arch.name!r} is {arch.unloadable}", fields=("model",))
    meta = Metadata(architecture=model.architecture, values=model.metadata)
    layers = read_layers(meta, arch, model)
    embedding = read_embedding(meta, arch, model)
    heads = read_heads(meta, layers)
    head_sizes = read_head_sizes(meta, arch, embedding["n_embd"], heads["n_head"][0])
    sizes = read_sizes(meta, arch, layers, head_sizes)
    is_recr = read_recurrent(meta, arch.state, layers, heads)
    hyper_connected = sizes["dsv4_hc_mult"] > 0
    return Hparams(
        arch=arch,
        runs_alone=runs_alone(arch, model),
        causal_attn=meta.flag("attention.causal", default=True) and arch.causal,
        pooling_type=pooling_type(meta),
        n_pos_per_embd=positions_per_token(meta, arch),
        n_layer_kv_from_start=read_layers_with_kv(meta, arch, layers["n_layer_all"]),
        is_recr=is_recr,
        is_indexer_full=read_indexer_flags(meta, arch, layers, embedding["n_ctx_train"]),
        attn_res_block_size=meta.count("attn_res.block_size", 0),
        f_attn_logit_softcapping=soft_cap(meta, "attn_logit_softcapping", arch.attn_logit_softcap),
        f_final_logit_softcapping=meta.number("final_logit_softcapping", arch.final_logit_softcap),
        **embedding,
        **layers,
        **heads,
        **head_sizes,
        **read_windows(meta, arch, layers, is_recr, hyper_connected=hyper_connected),
        **sizes,
        **read_layer_switches(meta, layers),
    )
