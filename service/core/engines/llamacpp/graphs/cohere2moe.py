"""Command with a mixture of experts: attention and experts work side by side on the same normed input."""

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.compute.node import I32, OUTPUT, Node
from service.core.engines.llamacpp.compute.ops import add, get_rows, scale
from service.core.engines.llamacpp.graphs import graph
from service.core.engines.llamacpp.graphs.blocks import build_ffn, build_moe_ffn, token_embeddings
from service.core.engines.llamacpp.graphs.blocks.attend import cached_attention
from service.core.engines.llamacpp.graphs.blocks.decoder import rotated_attention
from service.core.engines.llamacpp.graphs.blocks.norms import NormKind, block_norm, output_norm
from service.core.engines.llamacpp.graphs.blocks.output import scaled_logits
from service.core.engines.llamacpp.graphs.blocks.routed_ffn import file_routing
from service.core.engines.llamacpp.graphs.context import Block, GraphContext


def _rotates(hp: Hparams, il: int) -> bool:
    """Whether block `il` has rope: those with a window and the leading dense ones."""
    return hp.is_swa[il] or il < hp.n_layer_dense_lead


@graph("cohere2moe", layer_key=_rotates)
def cohere2moe(g: GraphContext) -> None:
    """src/models/cohere2moe.cpp: norms by their epsilon; drafts start from the output norm."""
    kind: NormKind = "rms" if g.number("attention.layer_norm_rms_epsilon") else "layer"
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


def _feed_forward(g: GraphContext, block: Block, cur: Node, il: int) -> Node:
    if not block.has("ffn_gate_inp.weight"):
        return build_ffn(block, cur)
    routed = build_moe_ffn(g, block, cur, file_routing(g, "sigmoid"), il)
    if not block.has("ffn_up_shexp.weight"):
        return routed
    return scale(add(routed, build_ffn(block, cur, suffix="_shexp")))
