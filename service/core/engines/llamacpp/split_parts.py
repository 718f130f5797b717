"""Segments a tensor is cut in, and the smallest piece of each that a device may get, under `-sm tensor`."""

from dataclasses import dataclass
from math import lcm
from typing import Final

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.split_axes import has_grouped_output
from service.core.problems import Unsupported

_KERNEL_ROWS: Final = 128
"""Rows that kernels like to work on; cuts are rounded to them where that leaves no device idle."""

_GATED_QUERIES: Final = frozenset({"qwen3next", "qwen35", "qwen35moe", "qwen4exp"})
_GATED_DELTA_SCALED: Final = frozenset({"qwen35", "qwen35moe", "qwen4exp"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """`length` elements that are cut as one, `repeats` times after each other, in multiples of `piece`."""

    length: int
    repeats: int
    piece: int


def aborts(name: str, why: str) -> Unsupported:
    """The problem for a model that -sm tensor cannot cut."""
    return Unsupported(
        f"split mode tensor cannot cut {name}: {why}; llama.cpp aborts while loading. Use split mode layer",
        fields=("engine.split_mode",),
    )


def segment_lengths(name: str, length: int, il: int, hp: Hparams) -> tuple[tuple[int, int], ...]:
    """Length and repeats of every segment of a dimension of `length` elements.

    Fused projections are cut part by part, so that each device gets whole heads of every part.
    Raises Unsupported where the parts do not add up, where llama.cpp aborts.
    Source: get_split_segments, src/llama-model.cpp:612-696 (llama.cpp in llama-cpp-python 0.3.36).
    """
    if hp.arch.name in _GATED_QUERIES:
        lengths = _gated_delta_lengths(name, length, il, hp)
    elif name in ("attn_qkv.weight", "attn_qkv.bias"):
        q, k, v = hp.n_head[il] * hp.n_embd_head_k(il), hp.n_embd_k_gqa(il), hp.n_embd_v_gqa(il)
        lengths = ((q, 1), (k, 2)) if k == v else ((q, 1), (k, 1), (v, 1))
    elif name in ("ffn_up.weight", "ffn_up.bias") and length == 2 * hp.n_ff[il]:
        lengths = ((hp.n_ff[il], 2),)
    elif name.startswith(("ffn_gate_up.", "ffn_gate_up_exps.")):
        lengths = ((hp.n_ff_exp[il], 2),)
    else:
        lengths = ((length, 1),)
    if sum(part * repeats for part, repeats in lengths) != length:
        raise aborts(name, f"its {length} rows are not the parts its shape implies")
    return lengths


def _gated_delta_lengths(name: str, length: int, il: int, hp: Hparams) -> tuple[tuple[int, int], ...]:
    """Segments of Qwen3-Next and later: gated queries, and delta-net value heads on the scale of key heads."""
    if not hp.is_recr[il] and name in ("attn_qkv.weight", "attn_qkv.bias"):
        return (2 * hp.n_head[il] * hp.n_embd_head_k(il), 1), (hp.n_embd_v_gqa(il), 2)
    key, value = hp.ssm_d_state * hp.ssm_n_group, hp.ssm_d_state * hp.ssm_dt_rank
    kernel, ratio = hp.ssm_d_conv - 1, hp.ssm_dt_rank // max(hp.ssm_n_group, 1)
    if hp.arch.name not in _GATED_DELTA_SCALED:
        if name in ("attn_qkv.weight", "ssm_conv1d.weight"):
            return (key, 2), (value, 1)
        if name == "cache_r":
            return (key * kernel, 2), (value * kernel, 1)
    else:
        scaled = {
            "attn_qkv.weight": (key, 2 + ratio),
            "ssm_conv1d.weight": (key, 2 + ratio),
            "attn_gate.weight": (key, ratio),
            "ssm_out.weight": (key, ratio),
            "cache_r": (key * kernel, 2 + ratio),
            "cache_s": (hp.ssm_n_group * hp.ssm_d_state**2, ratio),
        } | dict.fromkeys(("ssm_dt.bias", "ssm_a", "ssm_alpha.weight", "ssm_beta.weight"), (hp.ssm_n_group, ratio))
        if name in scaled:
            return (scaled[name],)
    if name.startswith(("ffn_gate_up.", "ffn_gate_up_exps.")):
        return ((hp.n_ff_exp[il], 2),)
    return ((length, 1),)


def piece_lengths(
    name: str, shape: tuple[int, ...], block: int, il: int, hp: Hparams, n_devices: int
) -> tuple[int, ...]:
    """Smallest piece of every segment; one value where all segments share it.

    block: elements per quantisation block of the reference tensor. Pieces keep blocks and heads whole.
    Source: get_split_granularity, src/llama-model.cpp:698-826 (llama.cpp in llama-cpp-python 0.3.36).
    """
    pieces = (
        _state_pieces(name, block, hp) if hp.is_recr[il] else _attention_pieces(name, shape, block, il, hp, n_devices)
    )
    if pieces is not None:
        return pieces
    if name.startswith(("ffn_up", "ffn_gate", "ffn_down")):
        return (lcm(block, _KERNEL_ROWS),)
    return (1,)


def _state_pieces(name: str, block: int, hp: Hparams) -> tuple[int, ...] | None:
    head = hp.ssm_d_state
    rows = lcm(lcm(block, _KERNEL_ROWS), head) if head else 0
    per_head = rows // head if head else 0
    pieces = {
        "attn_qkv.weight": rows,
        "attn_gate.weight": rows,
        "ssm_conv1d.weight": rows,
        "ssm_out.weight": rows,
        "ssm_dt.bias": per_head,
        "ssm_a": per_head,
        "ssm_alpha.weight": per_head,
        "ssm_beta.weight": per_head,
        "ssm_ba.weight": 2 * per_head,
        "cache_r": rows * (hp.ssm_d_conv - 1),
        "cache_s": rows * head,
    }
    return (pieces[name],) if name in pieces else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Heads:
    """Smallest pieces of one attention layer: query rows of one KV head's group, rounded up to whole blocks."""

    q: int
    gated_q: int
    per_head: int
    k: int
    v: int
    out: int


def _heads(block: int, il: int, hp: Hparams, n_devices: int) -> _Heads:
    k, v = hp.n_embd_head_k(il), hp.n_embd_head_v(il)
    n_gqa = hp.n_head[il] // hp.n_head_kv[il] if hp.n_head_kv[il] else 0
    group, rows = n_gqa * k, block
    while rows < _KERNEL_ROWS and rows * n_devices < group:
        rows *= 2
    if not group:
        return _Heads(q=0, gated_q=0, per_head=0, k=0, v=0, out=0)
    q = lcm(group, rows)
    kv = q // n_gqa
    return _Heads(q=q, gated_q=lcm(2 * group, rows), per_head=q // k, k=kv, v=kv // k * v, out=q // k * v)


def _attention_pieces(
    name: str, shape: tuple[int, ...], block: int, il: int, hp: Hparams, n_devices: int
) -> tuple[int, ...] | None:
    if has_grouped_output(hp):
        grouped = _grouped_pieces(name, il, hp)
        if grouped is not None:
            return (grouped,)
    heads = _heads(block, il, hp, n_devices)
    q = heads.gated_q if hp.arch.name in _GATED_QUERIES else heads.q
    if name in ("attn_qkv.weight", "attn_qkv.bias"):
        return (q, heads.k) if heads.k == heads.v or hp.arch.name in _GATED_QUERIES else (q, heads.k, heads.v)
    per_head_gate = len(shape) > 1 and shape[1] == hp.n_head[il]
    pieces = {
        "attn_sinks.weight": heads.per_head,
        "attn_q.weight": q,
        "attn_q.bias": q,
        "attn_output.weight": heads.out,
        "attn_gate.weight": heads.per_head if per_head_gate else heads.q,
    }
    pieces |= dict.fromkeys(("attn_k.weight", "attn_k.bias", "cache_k"), heads.k)
    pieces |= dict.fromkeys(("attn_v.weight", "attn_v.bias", "cache_v"), heads.v)
    return (pieces[name],) if name in pieces else None


def _grouped_pieces(name: str, il: int, hp: Hparams) -> int | None:
    heads = hp.n_head[il] // max(hp.dsv4_o_group_count, 1)
    return {
        "attn_sinks.weight": heads,
        "attn_q_b.weight": heads * hp.n_embd_head_k(il),
        "attn_output_a.weight": 1,
        "attn_output_b.weight": hp.dsv4_o_lora_rank,
    }.get(name)
