"""EXAONE MoE and Maple: blocks with a sliding window rotate, the others do not."""

from service.core.engines.llamacpp.graphs import graph
from service.core.engines.llamacpp.graphs.blocks import Routing, rms_output, token_embeddings
from service.core.engines.llamacpp.graphs.blocks.attend import cached_attention
from service.core.engines.llamacpp.graphs.blocks.decoder import pre_norm_decoder, rotated_attention, routed_or_dense
from service.core.engines.llamacpp.graphs.blocks.routed_ffn import file_routing
from service.core.engines.llamacpp.graphs.context import GraphContext


def _windowed_decoder(g: GraphContext, routing: Routing, *, factors: bool) -> None:
    cur = token_embeddings(g)
    attention = rotated_attention(g, cached_attention(g), rotates=lambda il: g.hp.is_swa[il], factors=factors)
    rms_output(g, pre_norm_decoder(g, cur, attention, routed_or_dense(g, routing)))


@graph("exaone-moe")
def exaone_moe(g: GraphContext) -> None:
    """src/models/exaone-moe.cpp."""
    _windowed_decoder(g, file_routing(g), factors=True)


@graph("maple")
def maple(g: GraphContext) -> None:
    """src/models/maple.cpp: its limited gated unit is one operation, like the unlimited one."""
    _windowed_decoder(g, Routing(), factors=False)
