"""What the graphs of draft (MTP) layers have in common: what goes in, the block itself, and the head.

Source: graph_mtp of src/models/qwen35.cpp, glm4-moe.cpp, step35.cpp and others (llama.cpp in llama-cpp-python 0.3.36).
"""

from typing import Literal

from service.core.engines.llamacpp.compute.node import F32, I32, OUTPUT, Node
from service.core.engines.llamacpp.compute.ops import add, concat, get_rows, mul_mat
from service.core.engines.llamacpp.graphs.blocks.decoder import Layer
from service.core.engines.llamacpp.graphs.blocks.linear import linear, project
from service.core.engines.llamacpp.graphs.blocks.norms import build_rms_norm
from service.core.engines.llamacpp.graphs.blocks.output import head_weight
from service.core.engines.llamacpp.graphs.context import Block, GraphContext

RowsTaken = Literal["behind_norm", "before_norm", "in_block"]

_NORMS = ("nextn.shared_head_norm.weight", "layer_output_norm.weight")


def draft_layer(g: GraphContext) -> tuple[Block, int]:
    """The draft layer that is run, with its index: one at a time, the first while memory is reserved."""
    return g.block(g.layers[0]), g.layers[0]


def draft_tokens(g: GraphContext, block: Block) -> Node:
    """Embeddings of the batch's tokens, by the draft layer's own table where it has one."""
    own = block("nextn.embed_tokens.weight")
    tokens = g.input("inp_tokens", I32, g.n_tokens)
    return get_rows(g.input_weight("token_embd.weight") if own is None else own, tokens)


def hidden_states(g: GraphContext, width: int) -> Node:
    """Hidden states of the target, which the host hands over."""
    return g.input("mtp_h_input", F32, width, g.n_tokens)


def draft_input(g: GraphContext, block: Block, il: int) -> Node:
    """Tokens and hidden states, each normed, joined and projected to one width."""
    tokens = draft_tokens(g, block)
    states = build_rms_norm(g, hidden_states(g, g.n_embd), block("nextn.hnorm.weight"), il)
    tokens = build_rms_norm(g, tokens, block("nextn.enorm.weight"), il)
    return project(block, "nextn.eh_proj", concat(tokens, states, 0))


def draft_block(
    g: GraphContext, attention: Layer, feed_forward: Layer, *, ffn_norm: str = "ffn_norm", few_rows: bool = False
) -> Node:
    """Norm, attention, norm and feed-forward network on what draft_input makes.

    few_rows: behind attention only the rows whose logits are wanted go on.
    """
    block, il = draft_layer(g)
    residual = draft_input(g, block, il)
    cur = attention(block, build_rms_norm(g, residual, block("attn_norm.weight"), il), il)
    if few_rows:
        cur, residual = wanted_rows(g, cur), wanted_rows(g, residual)
    ffn_inp = add(cur, residual)
    cur = build_rms_norm(g, ffn_inp, block(ffn_norm + ".weight"), il)
    return add(feed_forward(block, cur, il), ffn_inp)


def draft_head(g: GraphContext, cur: Node, *, rows: RowsTaken = "behind_norm", scaled: bool = True) -> None:
    """Norm and head, the layer's own where it has them, else the model's.

    rows: where the rows whose logits are wanted are taken: behind the norm, whose result for every token is what the
    next draft starts from; before the norm, which makes them that; or by the block already. scaled: whether the scale
    of the head is used (NVFP4).
    """
    block, _ = draft_layer(g)
    if rows == "before_norm":
        cur = wanted_rows(g, cur)
        cur.flags |= OUTPUT
    own = next((norm for name in _NORMS if (norm := block(name)) is not None), None)
    cur = build_rms_norm(g, cur, own or g.output_weight("output_norm.weight"), -1)
    if rows != "before_norm":
        cur.flags |= OUTPUT
    if rows == "behind_norm":
        cur = wanted_rows(g, cur)
    draft_logits(g, cur, scaled=scaled)


def wanted_rows(g: GraphContext, cur: Node) -> Node:
    """Rows whose logits are wanted."""
    return get_rows(cur, g.input("out_ids", I32, g.n_outputs))


def draft_logits(g: GraphContext, cur: Node, *, scaled: bool = True) -> None:
    """The head alone, which ends the graph."""
    block, _ = draft_layer(g)
    own = block("nextn.shared_head_head.weight")
    if not scaled:
        logits = mul_mat(head_weight(g) if own is None else own, cur)
    elif own is None:
        logits = linear(head_weight(g), cur, g.output_weight("output.scale"))
    else:
        logits = linear(own, cur, block("nextn.shared_head_head.scale"))
    logits.flags |= OUTPUT
    g.expand(logits)
