"""Gated DeltaNet layers of Qwen 3-Next and later.

Source: build_layer_attn_linear, src/models/qwen3next.cpp, qwen35.cpp, qwen35moe.cpp and qwen4exp.cpp
(llama.cpp in llama-cpp-python 0.3.36).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import (
    add,
    mul,
    repeat_4d,
    reshape,
    sigmoid,
    silu,
    softplus,
    ssm_conv,
    view,
)
from service.core.engines.llamacpp.graphs.blocks.delta_net import (
    DeltaRule,
    build_conv_state,
    build_recurrent_attn,
    l2_norm_of_heads,
)
from service.core.engines.llamacpp.graphs.blocks.linear import linear
from service.core.engines.llamacpp.graphs.blocks.norms import build_rms_norm
from service.core.engines.llamacpp.graphs.blocks.state import StateInput, build_rs
from service.core.engines.llamacpp.graphs.context import Block, GraphContext


class DeltaInputs(NamedTuple):
    """What a layer's input is projected to.

    mixed: Q, K and V, [channels, tokens, sequences]; gate: of the output; beta, decay: [1, heads, tokens, sequences].
    """

    mixed: Node
    gate: Node
    beta: Node
    decay: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaLayer:
    """How models differ.

    interleaved: K heads are repeated one by one to match V heads; else the delta rule takes them as they are.
    gate: the output gate's activation. conv_state: the rolling state before new columns. scaled_output: the output
    projection has a scale.
    """

    interleaved: bool = False
    gate: Callable[[Node], Node] = silu
    conv_state: Callable[[GraphContext, StateInput, Node, int], Node] = build_conv_state
    scaled_output: bool = True


def separate_inputs(g: GraphContext, block: Block, cur: Node) -> DeltaInputs:
    """One weight for each of the gate, beta and decay."""
    heads, n, n_seqs = g.hp.ssm_dt_rank, g.n_seq_tokens, g.n_seqs
    mixed = linear(block.need("attn_qkv.weight"), cur, block("attn_qkv.scale"))
    mixed = reshape(mixed, mixed.ne[0], n, n_seqs)
    gate = linear(block.need("attn_gate.weight"), cur, block("attn_gate.scale"))
    beta = linear(block.need("ssm_beta.weight"), cur, block("ssm_beta.scale"))
    beta = sigmoid(reshape(beta, 1, heads, n, n_seqs))
    alpha = linear(block.need("ssm_alpha.weight"), cur, block("ssm_alpha.scale"))
    return DeltaInputs(mixed, gate, beta, decay_of(block, reshape(alpha, heads, n, n_seqs)))


def decay_of(block: Block, alpha: Node) -> Node:
    """Decay of [heads, tokens, sequences] as [1, heads, tokens, sequences]."""
    decay = mul(softplus(add(alpha, block.need("ssm_dt.bias"))), block.need("ssm_a"))
    return reshape(decay, 1, *alpha.ne[:3])


def build_gated_delta(
    g: GraphContext, states: StateInput, block: Block, inputs: DeltaInputs, il: int, layer: DeltaLayer
) -> Node:
    """Convolution, delta rule, gated norm, projection: [embedding, tokens]."""
    hp, n, n_seqs = g.hp, g.n_seq_tokens, g.n_seqs
    size, heads_k, heads = hp.ssm_d_state, hp.ssm_n_group, hp.ssm_dt_rank
    size_v = hp.ssm_d_inner // heads
    conv = layer.conv_state(g, states, inputs.mixed, il)
    state = build_rs(g, states, g.cache("recurrent", il, second=True), hp.n_embd_s, n_seqs)
    state = reshape(state, size_v, size_v, heads, n_seqs)
    conv = silu(ssm_conv(conv, block.need("ssm_conv1d.weight")))
    row = 4 * (2 * size * heads_k + size_v * heads)
    q, k = (l2_norm_of_heads(view(conv, (size, heads_k, n, n_seqs), (4 * size, row, row * n))) for _ in range(2))
    v = view(conv, (size_v, heads, n, n_seqs), (4 * size_v, row, row * n))
    if heads_k != heads and layer.interleaved:
        q, k = (_interleave(x, heads // heads_k) for x in (q, k))
    output = build_recurrent_attn(g, states, DeltaRule(q, k, v, inputs.decay, inputs.beta, state), il)
    normed = build_rms_norm(g, output, block("ssm_norm.weight"), il)
    gated = mul(normed, layer.gate(reshape(inputs.gate, size_v, heads, n, n_seqs)))
    scale = block("ssm_out.scale") if layer.scaled_output else None
    cur = linear(block.need("ssm_out.weight"), reshape(gated, size_v * heads, n, n_seqs), scale)
    return reshape(cur, g.n_embd, n * n_seqs)


def _interleave(x: Node, times: int) -> Node:
    """Each head `times` times in a row."""
    size, heads, n, n_seqs = x.ne
    x = repeat_4d(reshape(x, size, 1, heads, n * n_seqs), size, times, heads, n * n_seqs)
    return reshape(x, size, heads * times, n, n_seqs)
