"""A Hugging Face configuration as vLLM reads it: heads, widths, and what every layer keeps.

Source: ModelArchConfig, config/model_arch.py and transformers_utils/model_arch_config_convertor.py; get_layers_by_type
of the configurations named below (vLLM 0.33.0).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from service.core.engines.vllm.model import LayerCache, StateShape
from service.core.problems import UnreadableModel, Unsupported

# layer_types of transformers → what the layer keeps
_KINDS = {
    "full_attention": "full", "attention": "full", "sliding_attention": "sliding", "chunked_attention": "chunked",
    "linear_attention": "state", "mamba": "state",
}  # fmt: skip
_STATE_TYPES = {"float32": 4, "bfloat16": 2, "float16": 2}
_MOST_LAYERS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFacts:
    """Numbers of a configuration; 0 where it has no such part. caches: of every layer, in order."""

    layers: int
    hidden_size: int
    vocabulary: int
    heads: int
    kv_heads: int
    head_size: int
    ff_rows: int
    experts: int
    experts_used: int
    expert_rows: int
    trained_context_tokens: int
    tied: bool
    is_latent: bool
    caches: tuple[tuple[LayerCache, ...], ...]


def config_facts(config: Mapping[str, Any]) -> ConfigFacts:
    """Numbers of a (text) configuration.

    Raises UnreadableModel where one that every model has is missing or absurd, Unsupported for caches without rules.
    """
    layers, hidden = _count(config, "num_hidden_layers"), _count(config, "hidden_size")
    if layers > _MOST_LAYERS:
        raise UnreadableModel(f"config.json: num_hidden_layers is {layers}.")
    heads = _count(config, "num_attention_heads")
    kv_heads = _optional(config, "num_key_value_heads") or heads
    head_size = _optional(config, "head_dim") or hidden // heads
    experts = _first(config, "num_experts", "num_local_experts", "n_routed_experts")
    latent = bool(_optional(config, "kv_lora_rank"))
    _refuse_unknown(config)
    return ConfigFacts(
        layers=layers,
        hidden_size=hidden,
        vocabulary=_count(config, "vocab_size"),
        heads=heads,
        kv_heads=kv_heads,
        head_size=head_size,
        ff_rows=_optional(config, "intermediate_size") or _optional(config, "moe_intermediate_size"),
        experts=experts,
        experts_used=_first(config, "num_experts_per_tok", "num_experts_per_token", "moe_topk") if experts else 0,
        expert_rows=_first(config, "moe_intermediate_size", "intermediate_size") if experts else 0,
        trained_context_tokens=_optional(config, "max_position_embeddings"),
        tied=bool(config.get("tie_word_embeddings", False)),
        is_latent=latent,
        caches=tuple(tuple(_caches(config, kind, kv_heads, head_size)) for kind in _layer_kinds(config, layers)),
    )


def _refuse_unknown(config: Mapping[str, Any]) -> None:
    odd = [name for name in ("compress_ratios", "ssm_cfg", "rwkv_version", "num_kv_shared_layers") if config.get(name)]
    if config.get("is_encoder_decoder") or odd:
        raise Unsupported(
            f"How vLLM caches a model with {odd[0] if odd else 'an encoder'} is not described here.", fields=("model",)
        )


def _layer_kinds(config: Mapping[str, Any], layers: int) -> list[str]:
    """What each layer is, by the list that newer configurations have or by the interval of older ones."""
    listed = config.get("layer_types")
    if isinstance(listed, list) and len(listed) >= layers:
        return [_kind(name) for name in listed[:layers]]
    every = _optional(config, "full_attention_interval")
    if every and _optional(config, "linear_num_value_heads"):
        return ["full" if (il + 1) % every == 0 else "state" for il in range(layers)]
    window = _optional(config, "sliding_window") if config.get("use_sliding_window", True) else 0
    pattern = _optional(config, "sliding_window_pattern")
    if window and pattern:
        return ["full" if (il + 1) % pattern == 0 else "sliding" for il in range(layers)]
    return ["sliding" if window else "full"] * layers


def _kind(name: object) -> str:
    kind = _KINDS.get(str(name))
    if kind is None:
        raise Unsupported(
            f"How vLLM caches a layer of type {str(name)[:40]!r} is not described here.", fields=("model",)
        )
    return kind


def _caches(config: Mapping[str, Any], kind: str, kv_heads: int, head_size: int) -> Iterator[LayerCache]:
    if kind == "state":
        yield LayerCache(kind="state", state=_state(config))
        return
    if latent := _optional(config, "kv_lora_rank"):
        rotary = _optional(config, "qk_rope_head_dim")
        yield LayerCache(
            kind="latent",
            kv_heads=1,
            head_size_k=latent + rotary,
            indexer_head_size=_optional(config, "index_head_dim"),
        )
        return
    window = _first(config, "sliding_window", "attention_chunk_size") if kind in ("sliding", "chunked") else 0
    yield LayerCache(
        kind="sliding" if kind == "sliding" else "chunked" if kind == "chunked" else "full",
        kv_heads=kv_heads,
        head_size_k=head_size,
        head_size_v=_optional(config, "v_head_dim") or head_size,
        window_tokens=window,
    )


def _state(config: Mapping[str, Any]) -> StateShape:
    """State of a gated delta net, or of Mamba 2."""
    if value_heads := _optional(config, "linear_num_value_heads"):
        key_rows = _count(config, "linear_num_key_heads") * _count(config, "linear_key_head_dim")
        value_size = _count(config, "linear_value_head_dim")
        return StateShape(
            conv_channels=2 * key_rows + value_heads * value_size,
            conv_length=_count(config, "linear_conv_kernel_dim") - 1,
            recurrent_elements=value_heads * value_size * _count(config, "linear_key_head_dim"),
            recurrent_element_bytes=_STATE_TYPES.get(str(config.get("mamba_ssm_dtype")), 0),
        )
    heads, size = _first(config, "mamba_num_heads", "mamba_n_heads"), _first(config, "mamba_head_dim", "mamba_d_head")
    states, groups = _first(config, "ssm_state_size", "mamba_d_state"), _first(config, "n_groups", "mamba_n_groups")
    if not (heads and size and states):
        raise Unsupported("How vLLM keeps the state of this model is not described here.", fields=("model",))
    return StateShape(
        conv_channels=heads * size + 2 * groups * states,
        conv_length=_first(config, "conv_kernel", "mamba_d_conv") - 1,
        recurrent_elements=heads * size * states,
        recurrent_element_bytes=_STATE_TYPES.get(str(config.get("mamba_ssm_dtype")), 0),
    )


def _count(config: Mapping[str, Any], name: str) -> int:
    value = _optional(config, name)
    if value <= 0:
        raise UnreadableModel(f"config.json has no sensible {name}.")
    return value


def _optional(config: Mapping[str, Any], name: str) -> int:
    value = config.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**40 else 0


def _first(config: Mapping[str, Any], *names: str) -> int:
    return next((found for name in names if (found := _optional(config, name))), 0)
