"""SmallThinker: experts are chosen before attention, by what comes into the block."""

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.compute.ops import add, mul_mat
from service.core.engines.llamacpp.graphs import graph
from service.core.engines.llamacpp.graphs.blocks import (
    Routing,
    build_moe_ffn,
    build_rms_norm,
    experts_scaled,
    rms_output,
    token_embeddings,
)
from service.core.engines.llamacpp.graphs.blocks.attend import cached_attention
from service.core.engines.llamacpp.graphs.blocks.decoder import rotated_attention
from service.core.engines.llamacpp.graphs.blocks.routed_ffn import file_routing
from service.core.engines.llamacpp.graphs.context import GraphContext

_STEP = 4


def _rotates(hp: Hparams, il: int) -> bool:
    """Whether block `il` has rope: all but every fourth, or all where the model has no window."""
    return hp.swa_type == "none" or hp.n_layer == _STEP or il % _STEP != 0


@graph("smallthinker", layer_key=_rotates)
def smallthinker(g: GraphContext) -> None:
    """src/models/smallthinker.cpp."""
    cur = token_embeddings(g)
    attention = rotated_attention(g, cached_attention(g), rotates=lambda il: _rotates(g.hp, il))
    routing = Routing(gating=file_routing(g).gating, activation="relu", scaled=experts_scaled(g))
    for il in g.layers:
        block = g.block(il)
        residual = cur
        choice = mul_mat(block.need("ffn_gate_inp.weight"), cur)
        cur = attention(block, build_rms_norm(g, cur, block("attn_norm.weight"), il), il)
        cur, residual, choice = g.select_outputs(il, cur, residual, choice)
        ffn_inp = add(cur, residual)
        cur = build_rms_norm(g, ffn_inp, block("ffn_norm.weight"), il)
        cur = add(build_moe_ffn(g, block.unscaled(), cur, routing, il, logits=choice), ffn_inp)
    rms_output(g, cur)
