"""Command with a mixture of experts: attention and experts work side by side on the same normed input."""

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.compute.node import I32, OUTPUT, Node
from service.core.engines.llamacpp.compute.ops import add, concat, get_rows, mul_mat, scale
from service.core.engines.llamacpp.graphs import draft_layers, graph
from service.core.engines.llamacpp.graphs.blocks import build_ffn, build_moe_ffn, token_embeddings
from service.core.engines.llamacpp.graphs.blocks.attend import cached_attention
from service.core.engines.llamacpp.graphs.blocks.decoder import rotated_attention
from service.core.engines.llamacpp.graphs.blocks.draft_layers import (
    draft_layer,
    draft_tokens,
    hidden_states,
    wanted_rows,
)
from service.core.engines.llamacpp.graphs.blocks.linear import project
from service.core.engines.llamacpp.graphs.blocks.norms import NormKind, block_norm, output_norm
from service.core.engines.llamacpp.graphs.blocks.output import head_weight, scaled_logits
from service.core.engines.llamacpp.graphs.blocks.routed_ffn import file_routing
from service.core.engines.llamacpp.graphs.context import Block, GraphContext


def _rotates(hp: Hparams, il: int) -> bool:
    """Whether block `il` has rope: those with a window and the leading dense ones."""
    return hp.is_swa[il] or il < hp.n_layer_dense_lead


@graph("cohere2moe", layer_key=_rotates)
def cohere2moe(g: GraphContext) -> None:
    """src/models/cohere2moe.cpp: norms by their epsilon; drafts start from the output norm."""
    kind = _norm_kind(g)
    cur = token_embeddings(g)
    attention = rotated_attention(g, cached_attention(g), rotates=lambda il: _rotates(g.hp, il), factors=True)
    for il in g.layers:
        block = g.block(il)
        normed = block_norm(g, kind, block, "attn_norm", cur, il)
        attended = attention(block, normed, il)
        cur = add(add(_feed_forward(g, block, normed, il), cur), attended)
    cur = output_norm(g, kind, cur)
    cur.flags |= OUTPUT
    cur = get_rows(cur, g.input("out_ids", I32, g.n_outputs))
    g.finish(cur, scaled_logits(g, cur))


@draft_layers("cohere2moe")
def cohere2moe_draft(g: GraphContext) -> None:
    """graph_mtp of src/models/cohere2moe.cpp."""
    kind, (block, il) = _norm_kind(g), draft_layer(g)
    attention = rotated_attention(g, cached_attention(g), factors=True)
    tokens = draft_tokens(g, block)
    states = block_norm(g, kind, block, "nextn.hnorm", hidden_states(g, g.n_embd), il)
    tokens = block_norm(g, kind, block, "nextn.enorm", tokens, il)
    cur = project(block, "nextn.eh_proj", concat(tokens, states, 0))
    normed = block_norm(g, kind, block, "attn_norm", cur, il)
    attended = attention(block, normed, il)
    cur = add(add(_feed_forward(g, block, normed, il), cur), attended)
    own = block.has("nextn.shared_head_norm.weight")
    cur = block_norm(g, kind, block, "nextn.shared_head_norm", cur, -1) if own else output_norm(g, kind, cur)
    cur.flags |= OUTPUT
    head = block("nextn.shared_head_head.weight")
    logits = mul_mat(head_weight(g) if head is None else head, wanted_rows(g, cur))
    logits = scale(logits) if g.number("logit_scale") else logits
    logits.flags |= OUTPUT
    g.expand(logits)


def _norm_kind(g: GraphContext) -> NormKind:
    return "rms" if g.number("attention.layer_norm_rms_epsilon") else "layer"


def _feed_forward(g: GraphContext, block: Block, cur: Node, il: int) -> Node:
    if not block.has("ffn_gate_inp.weight"):
        return build_ffn(block, cur)
    routed = build_moe_ffn(g, block, cur, file_routing(g, "sigmoid"), il)
    if not block.has("ffn_up_shexp.weight"):
        return routed
    return scale(add(routed, build_ffn(block, cur, suffix="_shexp")))
