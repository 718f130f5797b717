"""EAGLE 3: a draft of one block that reads its target's hidden state beside the token."""

from service.core.engines.llamacpp.compute.node import F32, I32, OUTPUT, Node
from service.core.engines.llamacpp.compute.ops import add, concat, get_rows, reshape, rope
from service.core.engines.llamacpp.graphs import graph
from service.core.engines.llamacpp.graphs.blocks import (
    attention_input,
    build_attn,
    build_ffn,
    build_rms_norm,
    linear,
    positions,
    rope_factors,
)
from service.core.engines.llamacpp.graphs.blocks.draft_vocabulary import (
    draft_embeddings,
    draft_head,
    over_target_vocabulary,
)
from service.core.engines.llamacpp.graphs.context import GraphContext


@graph("eagle3")
def eagle3(g: GraphContext) -> None:
    """src/models/eagle3.cpp, the decoder; every token's logits are computed."""
    hp, il = g.hp, 0
    block = g.block(il)
    tokens = get_rows(draft_embeddings(g), g.input("inp_tokens", I32, g.n_tokens))
    target = g.input("inp_embd", F32, g.n_embd, g.n_tokens)
    pos, inp = positions(g), attention_input(g)
    embedded = build_rms_norm(g, tokens, block("attn_norm.weight"), il)
    normed = build_rms_norm(g, target, block("attn_norm_2.weight"), -1)
    residual = normed if g.metadata.get("eagle3.norm_before_residual") is True else target
    cur = concat(embedded, normed, 0)
    q, k, v = (linear(block.need(f"attn_{name}.weight"), cur) for name in "qkv")
    head, factors = hp.n_embd_head_k(il), rope_factors(g, il)
    q = rope(reshape(q, head, hp.n_head[il], g.n_tokens), pos, factors)
    k = rope(reshape(k, head, hp.n_head_kv[il], g.n_tokens), pos, factors)
    v = reshape(v, head, hp.n_head_kv[il], g.n_tokens)
    ffn_inp = add(build_attn(g, inp, block, q, k, v, il), residual)
    cur = add(build_ffn(block, build_rms_norm(g, ffn_inp, block("ffn_norm.weight"), il)), ffn_inp)
    cur.flags |= OUTPUT  # what the next draft token starts from (t_h_nextn)
    _finish(g, build_rms_norm(g, cur, g.output_weight("output_norm.weight"), -1))


def _finish(g: GraphContext, normed: Node) -> None:
    logits = over_target_vocabulary(g, linear(draft_head(g), normed))
    logits.flags |= OUTPUT
    g.expand(logits)
