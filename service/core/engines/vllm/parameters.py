"""Tensors of a GGUF header as vLLM's parameters: which module holds them and how ranks divide it.

The shapes of a model do not depend on its quantisation, so any header of it describes the checkpoint vLLM loads.
Source: load_weights and the linear layers of model_executor/models (llama.py, qwen3.py, qwen3_moe.py, qwen3_next.py,
deepseek_v2.py, gpt_oss.py, gemma3.py, gemma4.py, nemotron_h.py, granitemoehybrid.py), vLLM 0.33.0; names of GGUF:
gguf-py/gguf/tensor_mapping.py (llama.cpp in llama-cpp-python 0.3.36).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from service.core.engines.vllm.model import Division, Role


@dataclass(frozen=True, slots=True)
class Parameter:
    """Module that a tensor belongs to: allocations of one `fused` name are one."""

    fused: str
    role: Role
    division: Division
    element_bytes: int | None = None


_Q, _KV = Parameter("qkv", "attention", "column"), Parameter("qkv", "attention", "kv_heads")
_NORM = Parameter("norm", "norm", "replicated")
_ROUTER = Parameter("router", "router", "replicated")
_STATE_GATE = Parameter("in_proj_ba", "state_gates", "column")
_STATE_TABLE = Parameter("state_table", "state_gates", "column", 4)
_LATENT_DOWN = Parameter("qkv_a", "attention", "replicated")
_LATENT_UP = Parameter("kv_b", "attention", "column")
_INDEXER = Parameter("indexer", "attention", "replicated")
_SMALL = Parameter("small", "norm", "replicated")

PARAMETERS: Mapping[str, Parameter] = MappingProxyType(
    {
        "token_embd": Parameter("embed", "embedding", "vocabulary"),
        "per_layer_token_embd": Parameter("embed_per_layer", "embedding", "vocabulary"),
        "per_layer_model_proj": Parameter("per_layer_proj", "table", "column"),
        "output": Parameter("lm_head", "output", "vocabulary"),
        "attn_q": _Q,
        "attn_k": _KV,
        "attn_v": _KV,
        "attn_output": Parameter("o", "attention", "row"),
        "attn_q_a": _LATENT_DOWN,
        "attn_kv_a_mqa": _LATENT_DOWN,
        "attn_q_b": Parameter("q_b", "attention", "column"),
        "attn_k_b": _LATENT_UP,
        "attn_v_b": _LATENT_UP,
        "attn_kv_b": _LATENT_UP,
        "attn_sinks": Parameter("sinks", "norm", "column"),
        "attn_gate": Parameter("in_proj_qkvz", "state", "column"),
        "indexer.attn_q_b": _INDEXER,
        "indexer.attn_k": _INDEXER,
        "indexer.q_proj": _INDEXER,
        "indexer.k_proj": _INDEXER,
        "indexer.proj": _INDEXER,
        "ffn_gate": Parameter("gate_up", "feed_forward", "column"),
        "ffn_up": Parameter("gate_up", "feed_forward", "column"),
        "ffn_down": Parameter("down", "feed_forward", "row"),
        "ffn_gate_shexp": Parameter("shared_gate_up", "shared_experts", "column"),
        "ffn_up_shexp": Parameter("shared_gate_up", "shared_experts", "column"),
        "ffn_down_shexp": Parameter("shared_down", "shared_experts", "row"),
        "ffn_gate_exps": Parameter("w13", "experts", "column"),
        "ffn_up_exps": Parameter("w13", "experts", "column"),
        "ffn_gate_up_exps": Parameter("w13", "experts", "column"),
        "ffn_down_exps": Parameter("w2", "experts", "row"),
        "ffn_latent_down": Parameter("latent", "shared_experts", "replicated"),
        "ffn_latent_up": Parameter("latent", "shared_experts", "replicated"),
        "ffn_gate_inp": _ROUTER,
        "ffn_gate_inp_shexp": _ROUTER,
        "exp_probs_b": Parameter("router_bias", "router", "replicated", 4),
        "ssm_in": Parameter("in_proj", "state", "column"),
        "ssm_out": Parameter("out_proj", "state", "row"),
        "ssm_alpha": _STATE_GATE,
        "ssm_beta": _STATE_GATE,
        "ssm_ba": _STATE_GATE,
        "ssm_conv1d": Parameter("conv1d", "state_gates", "column"),
        "ssm_a": _STATE_TABLE,
        "ssm_d": _STATE_TABLE,
        "ssm_dt": Parameter("dt_bias", "state_gates", "column"),
        "shortconv.in_proj": Parameter("in_proj", "state", "column"),
        "shortconv.out_proj": Parameter("out_proj", "state", "row"),
        "shortconv.conv": Parameter("conv1d", "state_gates", "column"),
        "inp_gate": Parameter("per_layer_gate", "table", "replicated"),
        "proj": Parameter("per_layer_out", "table", "replicated"),
        "altup_proj": Parameter("altup", "table", "replicated"),
        "altup_unembd_proj": Parameter("altup", "table", "replicated"),
        "laurel_l": Parameter("laurel", "table", "replicated"),
        "laurel_r": Parameter("laurel", "table", "replicated"),
        "rope_freqs": Parameter("none", "table", "replicated", 0),
    }
)
# the attention's own gate of hybrids lies beside the state's projections; where a layer has attention it is its own
FUSED_QKV = "attn_qkv"
_SMALL_NAMES = re.compile(r"norm|scale|altup|layer_output_scale|_res_score|hc_")
_UNNUMBERED = re.compile(r"^blk\.\d+\.")


def parameter_of(tensor_name: str) -> Parameter | None:
    """Where a tensor belongs, None for one that no rule names."""
    name, _, ending = _UNNUMBERED.sub("", tensor_name).rpartition(".")
    name = name or ending
    if ending == "scale":
        return _SMALL
    return PARAMETERS.get(name) or (_NORM if _SMALL_NAMES.search(name) else None)
