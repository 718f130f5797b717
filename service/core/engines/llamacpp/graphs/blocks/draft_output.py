"""The output layer of models whose draft (MTP) layers start from the trunk's last hidden state."""

from service.core.engines.llamacpp.compute.node import Node
from service.core.engines.llamacpp.graphs.blocks.decoder import seed_drafts
from service.core.engines.llamacpp.graphs.blocks.norms import build_rms_norm
from service.core.engines.llamacpp.graphs.blocks.output import logits_of
from service.core.engines.llamacpp.graphs.context import GraphContext


def output_with_draft_seed(g: GraphContext, cur: Node) -> None:
    """Norm of every token's state, kept for the drafts, then the rows whose logits are wanted.

    Source: the end of src/models/qwen35.cpp's graph, with embeddings_nextn_masked off as in any context made without
    drafts (llama.cpp in llama-cpp-python 0.3.36).
    """
    cur = build_rms_norm(g, cur, g.output_weight("output_norm.weight"), -1)
    cur = seed_drafts(g, cur)
    g.finish(cur, logits_of(g, cur))
