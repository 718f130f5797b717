"""What llama.cpp uses each tensor for, by its name in the file."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final, Literal

Layer = Literal["input", "output", "repeating"]
WeightOp = Literal[
    "add",
    "add_id",
    "div",
    "get_rows",
    "im2col",
    "mul",
    "mul_mat",
    "mul_mat_id",
    "none",
    "rope",
    "rwkv_wkv6",
    "scale",
    "ssm_conv",
    "ssm_scan",
]

_SUFFIXES = ("weight", "bias", "scale", "input_scale", "scales", "lora_a", "lora_b")
_BLOCK_NAME = re.compile(r"((?:dec\.|enc\.)?blk|posnet|convnext)\.(\d{1,4})\.(.+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorKind:
    """Layer class of a tensor and the operation it takes part in; `op` "none" is never loaded.

    base: the name without block and suffix, "ffn_down_exps" of "blk.3.ffn_down_exps.weight".
    block: the number in the name, None where there is none.
    """

    layer: Layer
    op: WeightOp
    base: str
    block: int | None

    @property
    def is_routed_expert(self) -> bool:
        """Whether the tensor stacks the matrices of routed experts, of which a token uses a few."""
        return self.base.endswith("exps")


# (layer class, where the name is found, operation, names)
_ROWS: tuple[tuple[Layer, str, WeightOp, str], ...] = (
    ("input", "", "get_rows", "token_embd position_embd token_types per_layer_token_embd"),
    ("input", "", "none", "masked_embd_centroids masked_embd_ordering"),
    ("output", "", "add", "output_hc_base"),
    ("output", "", "get_rows", "d2t markov_w1 selector_predecessor selector_successor"),
    (
        "output",
        "",
        "mul",
        "output_norm cls.norm enc.output_norm dec.output_norm output_res_score output_hc_scale output_hc_norm",
    ),
    (
        "output",
        "",
        "mul_mat",
        (
            "output cls cls.output output_hc_fn output_hc_down output_hc_up altup_unembd_proj altup_proj dense_2 "
            "dense_3 nextn.post_projection fc markov_w2 conf_proj selector_hidden"
        ),
    ),
    ("repeating", "", "add", "hrm.z_l_init"),
    ("repeating", "", "im2col", "conv1d"),
    ("repeating", "", "mul", "token_embd_norm per_layer_proj_norm"),
    ("repeating", "", "mul_mat", "per_layer_model_proj nextn.pre_projection"),
    ("repeating", "", "rope", "rope_freqs rope_factors_long rope_factors_short"),
    (
        "repeating",
        "blk",
        "add",
        (
            "exp_probs_b exp_probs_b_vl hc_attn_base hc_ffn_base time_mix_lerp_w time_mix_lerp_k time_mix_lerp_v "
            "time_mix_lerp_r time_mix_lerp_g time_mix_lerp_fused time_mix_decay time_mix_w0 time_mix_a0 time_mix_v0"
        ),
    ),
    ("repeating", "blk", "div", "ffn.act"),
    (
        "repeating",
        "blk",
        "get_rows",
        "attn_compressor_ape nextn.embed_tokens indexer_compressor_ape ffn_gate_tid2eid",
    ),
    (
        "repeating",
        "blk",
        "mul",
        (
            "attn_norm ffn_norm post_attention_norm attn_q_norm attn_k_norm post_ffw_norm post_ffw_norm_1 "
            "post_ffw_norm_2 pre_ffw_norm_2 attn_norm_2 layer_output_norm layer_output_scale attn_output_norm ssm_a "
            "ssm_norm ssm_d ssm_dt_norm ssm_b_norm ssm_c_norm ssm_conv1d_q ssm_conv1d_k ssm_conv1d_v attn_res_score "
            "ffn_res_score ffn_routed_norm attn_q_a_norm attn_kv_a_norm hc_attn_scale hc_ffn_scale hc_attn_norm "
            "hc_ffn_norm ple_norm_key ple_norm_query ple_norm_conv attn_compressor_norm post_norm altup_correct_scale "
            "altup_router_norm laurel_post_norm ffn_norm_exps nextn.enorm nextn.hnorm nextn.shared_head_norm "
            "attn_sub_norm ffn_sub_norm time_mix_lerp_x time_mix_ln channel_mix_lerp_k channel_mix_lerp_r "
            "time_mix_k_k time_mix_k_a time_mix_r_k indexer.k_norm indexer.q_norm indexer_compressor_norm "
            "attn_conv_base ffn_conv_base"
        ),
    ),
    (
        "repeating",
        "blk",
        "mul_mat",
        (
            "attn_q attn_k attn_v attn_output ffn_gate_inp ffn_gate ffn_down ffn_up attn_gate ffn_gate_shexp "
            "ffn_up_shexp ffn_down_shexp ffn_latent_down ffn_latent_up attn_qkv ffn_gate_inp_shexp ssm_dt ssm_ba "
            "ssm_alpha ssm_in ssm_out ssm_x ssm_f_a ssm_f_b ssm_beta ssm_g_a ssm_g ffn_routed_down ffn_routed_up "
            "ssm_g_b attn_q_a attn_q_b attn_kv_a_mqa attn_kv_b attn_kv attn_output_a attn_output_b hc_attn_fn "
            "hc_ffn_fn hc_attn_down hc_attn_up hc_attn_inject hc_ffn_down hc_ffn_up hc_ffn_inject ple_key ple_value "
            "attn_compressor_kv attn_compressor_gate inp_gate proj altup_correct_coef altup_predict_coef altup_router "
            "laurel_l laurel_r attn_k_b attn_v_b nextn.eh_proj nextn.shared_head_head time_mix_w1 time_mix_w2 "
            "time_mix_decay_w1 time_mix_decay_w2 time_mix_key time_mix_value time_mix_receptance time_mix_gate "
            "time_mix_output channel_mix_key channel_mix_value channel_mix_receptance time_mix_a1 time_mix_a2 "
            "time_mix_v1 time_mix_v2 time_mix_g1 time_mix_g2 shortconv.in_proj shortconv.out_proj vis_attn_qkv "
            "vis_attn_output vis_gate vis_down vis_up indexer.proj indexer.attn_k indexer.attn_q_b indexer.q_proj "
            "indexer.k_proj indexer_compressor_kv indexer_compressor_gate attn_conv_proj ffn_conv_proj"
        ),
    ),
    (
        "repeating",
        "blk",
        "mul_mat_id",
        "ffn_gate_exps ffn_gate_up_exps ffn_down_exps ffn_up_exps ffn_gate_chexps ffn_down_chexps ffn_up_chexps",
    ),
    ("repeating", "blk", "rwkv_wkv6", "time_mix_first"),
    ("repeating", "blk", "scale", "attn_sinks"),
    ("repeating", "blk", "ssm_conv", "ssm_conv1d ple_conv1d shortconv.conv"),
    ("repeating", "dec.blk", "get_rows", "attn_rel_b"),
    ("repeating", "dec.blk", "none", "cross_attn_rel_b"),
    ("repeating", "dec.blk", "mul", "attn_norm cross_attn_norm ffn_norm"),
    (
        "repeating",
        "dec.blk",
        "mul_mat",
        "attn_q attn_k attn_v attn_o cross_attn_q cross_attn_k cross_attn_v cross_attn_o ffn_gate ffn_down ffn_up",
    ),
    ("repeating", "enc.blk", "get_rows", "attn_rel_b"),
    ("repeating", "enc.blk", "mul", "attn_norm ffn_norm"),
    ("repeating", "enc.blk", "mul_mat", "attn_q attn_k attn_v attn_o ffn_gate ffn_down ffn_up"),
    ("repeating", "posnet", "im2col", "conv1 conv2"),
    ("repeating", "posnet", "mul", "norm norm1 norm2 attn_norm"),
    ("repeating", "posnet", "mul_mat", "attn_q attn_k attn_v attn_output"),
    ("repeating", "convnext", "im2col", "dw"),
    ("repeating", "convnext", "mul", "norm gamma"),
    ("repeating", "convnext", "mul_mat", "pw1 pw2"),
)


def _by_place() -> Iterator[tuple[tuple[str, str], tuple[Layer, WeightOp]]]:
    for layer, place, op, names in _ROWS:
        for name in names.split():
            yield (place, name), (layer, op)


_KINDS: Final[Mapping[tuple[str, str], tuple[Layer, WeightOp]]] = MappingProxyType(dict(_by_place()))


@lru_cache(maxsize=65536)
def tensor_kind(name: str) -> TensorKind | None:
    """Use of the tensor called `name`; None for a name llama.cpp does not know.

    Biases are added and embedded adapters multiplied by id, whatever their matrix does. Two names mean different
    things in different architectures, `token_embd_norm` and `ssm_a`: see buckets.py.

    Source: LLM_TENSOR_NAMES and LLM_TENSOR_INFOS, src/llama-arch.cpp:420-1010; src/llama-model-loader.cpp:1187-1196
    (llama.cpp in llama-cpp-python 0.3.36).
    """
    stem, _, suffix = name.rpartition(".")
    if suffix not in _SUFFIXES:
        stem, suffix = name, ""
    match = _BLOCK_NAME.fullmatch(stem)
    place, block, base = (match[1], int(match[2]), match[3]) if match else ("", None, stem)
    found = _KINDS.get((place, base))
    if found is None:
        return None
    layer, op = found
    if suffix == "bias" and op != "none":
        op = "add_id" if op == "mul_mat_id" else "add"
    elif suffix in ("lora_a", "lora_b"):
        op = "mul_mat_id"
    return TensorKind(layer=layer, op=op, base=base, block=block)
