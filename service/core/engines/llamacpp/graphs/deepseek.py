"""DeepSeek 1, dots.llm 1, Ling, Ernie 4.5, GLM 4.5, Hunyuan 3: dense blocks first, then routed and shared experts."""

from service.core.engines.llamacpp.graphs import draft_layers, graph
from service.core.engines.llamacpp.graphs.blocks import Routing, experts_scaled, rms_output, token_embeddings
from service.core.engines.llamacpp.graphs.blocks.attend import cached_attention
from service.core.engines.llamacpp.graphs.blocks.decoder import pre_norm_decoder, rotated_attention, routed_or_dense
from service.core.engines.llamacpp.graphs.blocks.draft_layers import draft_block, draft_head
from service.core.engines.llamacpp.graphs.blocks.draft_output import output_with_draft_seed
from service.core.engines.llamacpp.graphs.blocks.routed_ffn import file_routing
from service.core.engines.llamacpp.graphs.context import GraphContext


def _build(g: GraphContext, routing: Routing, *, factors: bool = False, ffn_norm: str = "ffn_norm") -> None:
    cur = token_embeddings(g)
    attention = rotated_attention(g, cached_attention(g), factors=factors)
    rms_output(g, pre_norm_decoder(g, cur, attention, routed_or_dense(g, routing), ffn_norm=ffn_norm))


@graph("deepseek")
def deepseek(g: GraphContext) -> None:
    """src/models/deepseek.cpp."""
    _build(g, Routing(normalised=False, scaled=experts_scaled(g)), factors=True)


@graph("bailingmoe")
def bailingmoe(g: GraphContext) -> None:
    """src/models/bailingmoe.cpp."""
    normalised = g.number("expert_weights_norm") != 0.0
    _build(g, Routing(normalised=normalised, scaled=experts_scaled(g)), factors=True)


@graph("bailingmoe2", "dots1")
def bailingmoe2(g: GraphContext) -> None:
    """src/models/bailingmoe2.cpp and dots1.cpp."""
    _build(g, file_routing(g))


@graph("ernie4_5-moe")
def ernie4_5_moe(g: GraphContext) -> None:
    """src/models/ernie4-5-moe.cpp."""
    _build(g, Routing(scaled=experts_scaled(g)))


@graph("glm4moe")
def glm4moe(g: GraphContext) -> None:
    """src/models/glm4-moe.cpp."""
    _build(g, file_routing(g, "sigmoid"), ffn_norm="post_attention_norm")


@graph("hy_v3")
def hy_v3(g: GraphContext) -> None:
    """src/models/hy-v3.cpp: what draft layers start from is normed."""
    cur = token_embeddings(g)
    attention = rotated_attention(g, cached_attention(g), factors=True)
    feed_forward = routed_or_dense(g, file_routing(g, "sigmoid"), scales=True)
    output_with_draft_seed(g, pre_norm_decoder(g, cur, attention, feed_forward, all_rows=True))


@draft_layers("glm4moe")
def glm4moe_draft(g: GraphContext) -> None:
    """graph_mtp of src/models/glm4-moe.cpp."""
    attention = rotated_attention(g, cached_attention(g))
    feed_forward = routed_or_dense(g, file_routing(g, "sigmoid"))
    draft_head(g, draft_block(g, attention, feed_forward, ffn_norm="post_attention_norm"))


@draft_layers("hy_v3")
def hy_v3_draft(g: GraphContext) -> None:
    """graph_mtp of src/models/hy-v3.cpp."""
    attention = rotated_attention(g, cached_attention(g), factors=True)
    draft_head(g, draft_block(g, attention, routed_or_dense(g, file_routing(g, "sigmoid"), scales=True)))
