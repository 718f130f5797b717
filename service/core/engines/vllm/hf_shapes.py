"""Tensors that a configuration alone implies, for checkpoints of which only the config.json is known.

Source: the modules of model_executor/models (llama.py, qwen3.py, qwen3_moe.py, qwen3_next.py, mixtral.py,
deepseek_v2.py, gpt_oss.py), vLLM 0.33.0.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from service.core.checkpoints import CheckpointTensor
from service.core.engines.vllm.hf_config import ConfigFacts
from service.core.engines.vllm.model import StateShape


def implied_tensors(config: Mapping[str, Any], facts: ConfigFacts) -> Iterator[CheckpointTensor]:
    """Weights of every module in 16 bits; biases and norms too, which hardly weigh anything."""
    yield _tensor("model.embed_tokens.weight", facts.vocabulary, facts.hidden_size)
    for il in range(facts.layers):
        prefix = f"model.layers.{il}."
        state = next((cache.state for cache in facts.caches[il] if cache.state is not None), None)
        yield from (_attention(config, facts, prefix) if state is None else _linear(config, facts, state, prefix))
        yield from (_experts(config, facts, prefix) if _is_sparse(config, facts, il) else _dense(facts, prefix))
        yield _tensor(f"{prefix}input_layernorm.weight", facts.hidden_size)
        yield _tensor(f"{prefix}post_attention_layernorm.weight", facts.hidden_size)
    yield _tensor("model.norm.weight", facts.hidden_size)
    if not facts.tied:
        yield _tensor("lm_head.weight", facts.vocabulary, facts.hidden_size)


def _tensor(name: str, *shape: int) -> CheckpointTensor:
    return CheckpointTensor(name=name, dtype="BF16", shape=shape)


def _attention(config: Mapping[str, Any], facts: ConfigFacts, prefix: str) -> Iterator[CheckpointTensor]:
    hidden, heads = facts.hidden_size, facts.heads
    if facts.is_latent:
        yield from _latent_attention(config, facts, prefix)
        return
    queries = heads * facts.head_size
    gated = 2 if config.get("attn_output_gate") else 1
    yield _tensor(f"{prefix}self_attn.q_proj.weight", queries * gated, hidden)
    yield _tensor(f"{prefix}self_attn.k_proj.weight", facts.kv_heads * facts.head_size, hidden)
    yield _tensor(f"{prefix}self_attn.v_proj.weight", facts.kv_heads * facts.head_size, hidden)
    yield _tensor(f"{prefix}self_attn.o_proj.weight", hidden, queries)


def _latent_attention(config: Mapping[str, Any], facts: ConfigFacts, prefix: str) -> Iterator[CheckpointTensor]:
    hidden, heads, latent = facts.hidden_size, facts.heads, int(config["kv_lora_rank"])
    plain, rotary = int(config.get("qk_nope_head_dim") or 0), int(config.get("qk_rope_head_dim") or 0)
    value = int(config.get("v_head_dim") or facts.head_size)
    if rank := config.get("q_lora_rank"):
        yield _tensor(f"{prefix}self_attn.q_a_proj.weight", int(rank), hidden)
        yield _tensor(f"{prefix}self_attn.q_b_proj.weight", heads * (plain + rotary), int(rank))
    else:
        yield _tensor(f"{prefix}self_attn.q_proj.weight", heads * (plain + rotary), hidden)
    yield _tensor(f"{prefix}self_attn.kv_a_proj_with_mqa.weight", latent + rotary, hidden)
    yield _tensor(f"{prefix}self_attn.kv_b_proj.weight", heads * (plain + value), latent)
    yield _tensor(f"{prefix}self_attn.o_proj.weight", hidden, heads * value)


def _linear(
    config: Mapping[str, Any], facts: ConfigFacts, state: StateShape, prefix: str
) -> Iterator[CheckpointTensor]:
    """A layer with a state: its convolution's channels, its values, and what leads in and out."""
    channels = state.conv_channels
    heads = int(config.get("linear_num_value_heads") or config.get("mamba_num_heads") or 0)
    size = int(config.get("linear_value_head_dim") or config.get("mamba_head_dim") or 0)
    values = heads * size
    yield _tensor(f"{prefix}linear_attn.in_proj_qkvz.weight", channels + values, facts.hidden_size)
    yield _tensor(f"{prefix}linear_attn.in_proj_ba.weight", 2 * heads, facts.hidden_size)
    yield _tensor(f"{prefix}linear_attn.conv1d.weight", channels, state.conv_length + 1)
    yield _tensor(f"{prefix}linear_attn.out_proj.weight", facts.hidden_size, values)


def _dense(facts: ConfigFacts, prefix: str) -> Iterator[CheckpointTensor]:
    yield _tensor(f"{prefix}mlp.gate_proj.weight", facts.ff_rows, facts.hidden_size)
    yield _tensor(f"{prefix}mlp.up_proj.weight", facts.ff_rows, facts.hidden_size)
    yield _tensor(f"{prefix}mlp.down_proj.weight", facts.hidden_size, facts.ff_rows)


def _is_sparse(config: Mapping[str, Any], facts: ConfigFacts, il: int) -> bool:
    """Whether a layer has routed experts."""
    if not facts.experts or il in (config.get("mlp_only_layers") or ()):
        return False
    step = int(config.get("decoder_sparse_step") or config.get("moe_layer_freq") or 1)
    return il >= int(config.get("first_k_dense_replace") or 0) and (step <= 1 or (il + 1) % step == 0)


def _experts(config: Mapping[str, Any], facts: ConfigFacts, prefix: str) -> Iterator[CheckpointTensor]:
    hidden, rows = facts.hidden_size, facts.expert_rows
    yield _tensor(f"{prefix}mlp.gate.weight", facts.experts, hidden)
    yield _tensor(f"{prefix}mlp.experts.gate_up_proj", facts.experts, 2 * rows, hidden)
    yield _tensor(f"{prefix}mlp.experts.down_proj", facts.experts, hidden, rows)
    shared = int(config.get("shared_expert_intermediate_size") or 0)
    shared = shared or int(config.get("n_shared_experts") or 0) * rows
    if shared:
        yield _tensor(f"{prefix}mlp.shared_expert.gate_proj.weight", shared, hidden)
        yield _tensor(f"{prefix}mlp.shared_expert.up_proj.weight", shared, hidden)
        yield _tensor(f"{prefix}mlp.shared_expert.down_proj.weight", hidden, shared)
