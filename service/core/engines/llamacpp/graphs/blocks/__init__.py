"""The pieces that architectures' graphs are made of, as src/llama-graph.cpp has them."""

from service.core.engines.llamacpp.graphs.blocks.attention import (
    build_attn,
    build_qkv,
    hadamard,
    mha,
    output_projection,
    qkv_of_sizes,
    read_k,
    read_v,
    store_rows,
    store_transposed,
)
from service.core.engines.llamacpp.graphs.blocks.attention_variants import (
    WindowedInput,
    build_attn_latent,
    build_attn_latent_windowed,
    build_attn_uncached,
    build_attn_windowed,
    uncached_mask,
    windowed_input,
)
from service.core.engines.llamacpp.graphs.blocks.experts import (
    Routing,
    activate,
    build_moe_ffn,
    expert_weights,
    experts_scaled,
    select_experts,
    sum_experts,
)
from service.core.engines.llamacpp.graphs.blocks.feed_forward import build_ffn
from service.core.engines.llamacpp.graphs.blocks.inputs import (
    AttentionInput,
    attention_input,
    attention_mask,
    attention_scale,
    positions,
    token_embeddings,
)
from service.core.engines.llamacpp.graphs.blocks.linear import expert_linear, linear, project
from service.core.engines.llamacpp.graphs.blocks.norms import build_layer_norm, build_rms_norm
from service.core.engines.llamacpp.graphs.blocks.output import head_weight, logits_of, rms_output
from service.core.engines.llamacpp.graphs.blocks.rope import rope_factors
from service.core.engines.llamacpp.graphs.blocks.state import (
    StateInput,
    build_rs,
    load_token_shift,
    state_input,
    store_token_shift,
)

__all__ = [
    "AttentionInput",
    "Routing",
    "StateInput",
    "WindowedInput",
    "activate",
    "attention_input",
    "attention_mask",
    "attention_scale",
    "build_attn",
    "build_attn_latent",
    "build_attn_latent_windowed",
    "build_attn_uncached",
    "build_attn_windowed",
    "build_ffn",
    "build_layer_norm",
    "build_moe_ffn",
    "build_qkv",
    "build_rms_norm",
    "build_rs",
    "expert_linear",
    "expert_weights",
    "experts_scaled",
    "hadamard",
    "head_weight",
    "linear",
    "load_token_shift",
    "logits_of",
    "mha",
    "output_projection",
    "positions",
    "project",
    "qkv_of_sizes",
    "read_k",
    "read_v",
    "rms_output",
    "rope_factors",
    "select_experts",
    "state_input",
    "store_rows",
    "store_token_shift",
    "store_transposed",
    "sum_experts",
    "token_embeddings",
    "uncached_mask",
    "windowed_input",
]
