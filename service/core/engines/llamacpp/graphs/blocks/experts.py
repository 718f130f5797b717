"""Mixture-of-experts feed-forward networks.

Source: build_moe_ffn, src/llama-graph.cpp:1962-2329 (llama.cpp in llama-cpp-python 0.3.36).
"""

from dataclasses import dataclass
from typing import Literal

from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.compute.ops import (
    add,
    add_id,
    argsort_top_k,
    clamp,
    cont,
    div,
    fill,
    get_rows,
    glu_split,
    mul,
    mul_mat,
    repeat_4d,
    reshape,
    scale,
    set_rows,
    sigmoid,
    silu,
    soft_max,
    softplus,
    sqr,
    sqrt,
    sum_rows,
    tanh,
    unary,
    view,
)
from service.core.engines.llamacpp.graphs.blocks.linear import expert_linear
from service.core.engines.llamacpp.graphs.context import Block, GraphContext

Gating = Literal["softmax", "sigmoid", "softmax_weight", "sqrt_softplus"]
ExpertActivation = Literal["silu", "gelu", "relu", "relu_sqr", "swiglu_oai", "situ"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """How experts are chosen and weighed.

    normalised: weights are divided by their sum; scaled: and multiplied by a constant; weigh_first: the input is
    weighed instead of the output (llama 4); raw_selection: chosen by logits, not by probabilities (llama 4).
    clamped, fused_clamp: silu is limited (hparams.swiglu_clamp_exp), with one operation for it.
    """

    gating: Gating = "softmax"
    activation: ExpertActivation = "silu"
    normalised: bool = True
    scaled: bool = False
    weigh_first: bool = False
    raw_selection: bool = False
    clamped: bool = False
    fused_clamp: bool = False


def experts_scaled(g: GraphContext) -> bool:
    """Whether the model scales expert weights (hparams.expert_weights_scale is neither 0 nor 1)."""
    return g.number("expert_weights_scale") not in (0.0, 1.0)


def build_moe_ffn(
    g: GraphContext,
    block: Block,
    cur: Node,
    routing: Routing,
    il: int,
    *,
    suffix: str = "_exps",
    logits: Node | None = None,
    selected: Node | None = None,
) -> Node:
    """Route `cur` through its experts `ffn_*<suffix>` and sum their outputs.

    logits: router output computed elsewhere; selected: experts chosen elsewhere.
    """
    n_embd, n_tokens = cur.ne[0], cur.ne[1]
    n_used = g.hp.n_expert_used[il]
    if logits is None:
        logits = mul_mat(block.need("ffn_gate_inp.weight"), cur)
        bias = block("ffn_gate_inp.bias")
        if bias is not None:
            logits = add(logits, bias)
    probs = _probabilities(logits, routing.gating)
    if selected is None:
        selected = select_experts(g, block, logits, probs, routing, n_used)
    weights = expert_weights(probs, selected, routing)
    g.expand(weights)
    cur = reshape(cur, n_embd, 1, n_tokens)
    if routing.weigh_first:
        cur = mul(repeat_4d(cur, n_embd, n_used, n_tokens, 1), weights)
    cur = _run_experts(block, cur, selected, routing, suffix)
    if not routing.weigh_first:
        cur = mul(cur, weights)
    g.expand(cur)
    return sum_experts(g, cur, n_used)


def _probabilities(logits: Node, gating: Gating) -> Node:
    if gating == "softmax":
        return soft_max(logits)
    if gating == "sigmoid":
        return sigmoid(logits)
    if gating == "sqrt_softplus":
        return sqrt(softplus(logits))
    return logits


def select_experts(g: GraphContext, block: Block, logits: Node, probs: Node, routing: Routing, n_used: int) -> Node:
    """Indices of the chosen experts: [n_used, tokens]."""
    choice = probs
    bias = block("exp_probs_b.bias") or block("exp_probs_b")  # the latter: src/models/hy-v3.cpp:68
    if bias is not None:
        choice = add(probs, bias)
    if routing.raw_selection:
        choice = logits
    if g.hp.n_expert_groups > 1:
        choice = _mask_groups(choice, g.hp.n_expert_groups, g.hp.n_group_used)
    return argsort_top_k(choice, n_used)


def _mask_groups(choice: Node, n_groups: int, n_group_used: int) -> Node:
    """Leave only the experts of the best groups."""
    n_expert, n_tokens = choice.ne[0], choice.ne[1]
    groups = reshape(choice, n_expert // n_groups, n_groups, n_tokens)
    best = argsort_top_k(groups, 2)
    scores = get_rows(reshape(groups, 1, groups.ne[0], groups.ne[1], groups.ne[2]), best)
    scores = sum_rows(reshape(scores, scores.ne[1], scores.ne[2], scores.ne[3]))
    scores = reshape(scores, scores.ne[1], scores.ne[2])
    chosen = argsort_top_k(scores, n_group_used)
    kept = get_rows(groups, chosen)
    masked = set_rows(fill(groups), kept, chosen)
    return reshape(masked, n_expert, n_tokens)


def expert_weights(probs: Node, selected: Node, routing: Routing) -> Node:
    """Weights of the chosen experts: [1, n_used, tokens]."""
    n_used, n_tokens = selected.ne[0], selected.ne[1]
    weights = get_rows(reshape(probs, 1, probs.ne[0], n_tokens), selected)
    if routing.gating == "softmax_weight":
        weights = soft_max(reshape(weights, n_used, n_tokens))
        weights = reshape(weights, 1, n_used, n_tokens)
    if routing.normalised:
        weights = reshape(weights, n_used, n_tokens)
        weights = div(weights, clamp(sum_rows(weights)))
        weights = reshape(weights, 1, n_used, n_tokens)
    return scale(weights) if routing.scaled else weights


def _run_experts(block: Block, cur: Node, selected: Node, routing: Routing, suffix: str) -> Node:
    def run(name: str, x: Node) -> Node:
        x = expert_linear(block.need(f"{name}{suffix}.weight"), x, selected, block(f"{name}{suffix}.scale"))
        bias = block(f"{name}{suffix}.bias")
        return x if bias is None else add_id(x, bias, selected)

    fused = block.has(f"ffn_gate_up{suffix}.weight")
    gated = fused or block.has(f"ffn_gate{suffix}.weight")
    if fused:
        both = run("ffn_gate_up", cur)
        ne = (both.ne[0] // 2, both.ne[1], both.ne[2])
        gate = view(both, ne, (both.nb[1], both.nb[2]))
        up = view(both, ne, (both.nb[1], both.nb[2]))
    else:
        up = run("ffn_up", cur)
        gate = run("ffn_gate", cur) if gated else up
    return run("ffn_down", activate(gate, up if gated else None, routing, separate=gated and not fused))


def activate(gate: Node, up: Node | None, routing: Routing, *, separate: bool) -> Node:
    """The activation between up and down projections; `up` None where there is no gate."""
    kind = routing.activation
    if up is None:
        cur = unary(gate)
        return sqr(cur) if kind == "relu_sqr" else cur
    if kind == "situ":
        cur = scale(tanh(scale(gate)))
        cur = mul(cur, sigmoid(gate))
        return mul(cur, scale(tanh(scale(up))))
    if kind == "silu" and routing.clamped and separate and not routing.fused_clamp:
        up = clamp(up)
        return mul(clamp(silu(gate)), up)
    return glu_split(gate, up)


def sum_experts(g: GraphContext, experts: Node, n_used: int) -> Node:
    """Add up the experts' outputs: [embedding, n_used, tokens] to [embedding, tokens]."""
    n_embd, _, n_tokens, _ = experts.ne
    parts = [view(experts, (n_embd, n_tokens), (experts.nb[2],)) for _ in range(n_used)]
    for part in parts:
        g.expand(part)
    cur = parts[0]
    for part in parts[1:]:
        cur = add(cur, part)
        g.expand(cur)
    return cont(cur) if n_used == 1 else cur
