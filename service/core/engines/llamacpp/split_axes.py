"""Along which dimension `-sm tensor` cuts a tensor, by its name."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from service.core.architectures.hparams import Hparams

MIRRORED: Final = -1
"""Every device holds the whole tensor (also for biases of which each device adds its part)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitAxis:
    """Dimension that is cut (ne0 is 0), and the tensors of the same block whose quantisation blocks must stay whole.

    references: bases of weights, the first that the model has counts; none means the tensor itself.
    """

    axis: int
    references: tuple[str, ...] = ()


_WHOLE = SplitAxis(axis=MIRRORED)
_ATTENTION = ("attn_output", "ssm_out")
_FEED_FORWARD = ("ffn_down", "ffn_down_exps")
_STATE = ("ssm_out",)
_SHARED_EXPERTS = ("ffn_down_shexp",)


def _of(axis: int, references: tuple[str, ...], *names: str) -> dict[str, SplitAxis]:
    rule = SplitAxis(axis=axis, references=references)
    return dict.fromkeys(names, rule)


_AXES: Final[Mapping[str, SplitAxis]] = MappingProxyType(
    _of(1, _ATTENTION, "attn_q.weight", "attn_k.weight", "attn_v.weight", "attn_qkv.weight", "attn_gate.weight")
    | _of(0, _ATTENTION, "attn_q.bias", "attn_k.bias", "attn_v.bias", "attn_qkv.bias")
    | _of(1, ("attn_output",), "attn_q_norm.weight", "attn_k_norm.weight")
    | _of(0, ("attn_output",), "cache_k", "cache_v", "attn_sinks.weight")
    | _of(0, (), "attn_output.weight")
    | _of(0, _STATE, "ssm_dt.bias", "ssm_a", "cache_r", "cache_s")
    | _of(1, _STATE, "ssm_alpha.weight", "ssm_beta.weight", "ssm_ba.weight", "ssm_conv1d.weight")
    | _of(0, (), "ssm_out.weight")
    | _of(1, _FEED_FORWARD, "ffn_up.weight", "ffn_gate.weight", "ffn_gate_up.weight")
    | _of(1, _FEED_FORWARD, "ffn_up_exps.weight", "ffn_gate_exps.weight", "ffn_gate_up_exps.weight")
    | _of(0, _FEED_FORWARD, "ffn_up.bias", "ffn_gate.bias", "ffn_up_exps.bias", "ffn_gate_exps.bias")
    | _of(0, _FEED_FORWARD, "ffn_down.weight", "ffn_down_exps.weight")
    | _of(1, (), "output.weight")
    | _of(0, (), "output.bias")
)
"""Axes by name within the block; caches as cache_k, cache_v, cache_r, cache_s. Every other tensor is mirrored.

Source: src/llama-model.cpp:377-610 (llama.cpp in llama-cpp-python 0.3.36).
"""

_DEEPSEEK4_AXES: Final[Mapping[str, SplitAxis]] = MappingProxyType(
    _of(MIRRORED, (), "cache_k", "cache_v", "cache_r", "cache_s", "output.weight")
    | _of(0, ("attn_output_a",), "attn_sinks.weight")
    | _of(1, ("attn_output_a",), "attn_q_b.weight")
    | _of(2, (), "attn_output_a.weight")
    | _of(0, (), "attn_output_b.weight")
    | _of(1, _SHARED_EXPERTS, "ffn_up_shexp.weight", "ffn_gate_shexp.weight")
    | _of(0, _SHARED_EXPERTS, "ffn_down_shexp.weight")
)
"""What DeepSeek-V4 and its DFlash draft do otherwise (src/llama-model.cpp:502-532)."""

_BLOCKS_IN_FULL: Final = frozenset({"hrm_text"})
"""Architectures that mirror everything (src/llama-model.cpp:498-501)."""

_SHORT_CONVOLUTIONS: Final = frozenset({"lfm2", "lfm2moe"})
"""Architectures whose rolling state is mirrored (src/llama-model.cpp:573-577)."""


def has_grouped_output(hp: Hparams) -> bool:
    """Whether attention's output projection is in groups of heads, as in DeepSeek-V4."""
    return hp.arch.name == "deepseek4" or (hp.arch.name == "dflash" and hp.dsv4_hc_mult > 0)


def split_axis(name: str, shape: tuple[int, ...], hp: Hparams) -> SplitAxis:
    """How the tensor called `name` within its block ("attn_q.weight", "cache_k") is cut.

    Source: get_tensor_config, src/llama-model.cpp:496-610 (llama.cpp in llama-cpp-python 0.3.36).
    """
    if hp.arch.name in _BLOCKS_IN_FULL:
        return _WHOLE
    if has_grouped_output(hp) and name in _DEEPSEEK4_AXES:
        return _DEEPSEEK4_AXES[name]
    if name in ("cache_r", "cache_s") and hp.arch.name in _SHORT_CONVOLUTIONS:
        return _WHOLE
    if name in ("attn_q_norm.weight", "attn_k_norm.weight") and (len(shape) < 2 or shape[1] == 1):
        return _WHOLE
    return _AXES.get(name, _WHOLE)
