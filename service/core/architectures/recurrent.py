"""Architectures with recurrent state, alone or beside attention.

Source: src/llama-arch.cpp, src/llama-model.cpp:2352-2840 and src/models/*.cpp (llama.cpp in llama-cpp-python 0.3.36).
"""

from service.core.architectures.architecture import Architecture, IndexerRule, StateRule
from service.core.architectures.window import SlidingWindow

RECURRENT = (
    Architecture(
        name="arwkv7", memory="recurrent", state=StateRule(family="rwkv", layers="all"), ties_embeddings="never"
    ),
    Architecture(
        name="bailingmoe3",
        memory="hybrid",
        state=StateRule(family="kda", layers="no_kv_heads"),
        mla="required",
        tensor_split=False,
        state_rollback=True,
        multi_axis_rope="with_sections",
        n_ff_shexp_from_experts=True,
        draft_layers_alone=True,
    ),
    Architecture(
        name="falcon-h1",
        memory="hybrid",
        state=StateRule(family="mamba2", layers="all", keeps_attention=True),
        tensor_split=False,
    ),
    Architecture(
        name="glm5-next",
        memory="hybrid_indexed",
        state=StateRule(family="kda", layers="no_kv_heads"),
        indexer=IndexerRule(layers="types", types="all", pools_keys=True),
        mla="required",
        v_is_latent=True,
        ties_embeddings="never",
        tensor_split=False,
        state_rollback=True,
        draft_layers_alone=True,
    ),
    Architecture(
        name="granitehybrid",
        memory="hybrid",
        state=StateRule(family="mamba2", layers="no_kv_heads"),
        tensor_split=False,
    ),
    Architecture(
        name="jamba",
        memory="hybrid",
        state=StateRule(family="mamba1", layers="no_kv_heads", has_groups=False),
        tensor_split=False,
    ),
    Architecture(
        name="kimi-k3",
        memory="hybrid",
        state=StateRule(family="kda", layers="no_kv_heads"),
        mla="required",
        v_is_latent=True,
        ties_embeddings="never",
        tensor_split=False,
        state_rollback=True,
    ),
    Architecture(
        name="kimi-linear",
        memory="hybrid",
        state=StateRule(family="kda", layers="no_kv_heads"),
        mla="required",
        ties_embeddings="never",
        tensor_split=False,
    ),
    Architecture(
        name="lfm2",
        memory="hybrid",
        window=SlidingWindow(layers="attention", condition="positive"),
        state=StateRule(family="shortconv", layers="no_kv_heads"),
        state_rollback=True,
        all_layers_dense=True,
    ),
    Architecture(
        name="lfm2moe", memory="hybrid", state=StateRule(family="shortconv", layers="no_kv_heads"), state_rollback=True
    ),
    Architecture(
        name="mamba",
        memory="recurrent",
        state=StateRule(family="mamba1", layers="all", has_groups=False),
        tensor_split=False,
    ),
    Architecture(name="mamba2", memory="recurrent", state=StateRule(family="mamba2", layers="all"), tensor_split=False),
    Architecture(
        name="minimax-01",
        memory="hybrid",
        state=StateRule(family="linear_attention", layers="interval", default_interval=8),
        tensor_split=False,
    ),
    Architecture(
        name="nemotron_h",
        memory="hybrid",
        state=StateRule(family="mamba2", layers="no_kv_heads_no_ff"),
        tensor_split=False,
        state_rollback=True,
    ),
    Architecture(
        name="nemotron_h_moe",
        memory="hybrid",
        state=StateRule(family="mamba2", layers="no_kv_heads_no_ff"),
        tensor_split=False,
        state_rollback=True,
        draft_layers_alone=True,
    ),
    Architecture(
        name="plamo2",
        memory="hybrid",
        state=StateRule(family="mamba2", layers="no_kv_heads"),
        tensor_split=False,
        head_sizes_without_heads=True,
    ),
    Architecture(
        name="qwen35",
        memory="hybrid",
        state=StateRule(family="delta_net", layers="interval", default_interval=4),
        state_rollback=True,
        multi_axis_rope="always",
        draft_layers_alone=True,
    ),
    Architecture(
        name="qwen35moe",
        memory="hybrid",
        state=StateRule(family="delta_net", layers="interval", default_interval=4),
        state_rollback=True,
        multi_axis_rope="always",
        draft_layers_alone=True,
    ),
    Architecture(
        name="qwen3next",
        memory="hybrid",
        state=StateRule(family="delta_net", layers="interval", default_interval=4),
        draft_layers_alone=True,
    ),
    Architecture(
        name="qwen4exp",
        memory="hybrid_indexed",
        state=StateRule(family="delta_net", layers="interval", default_interval=4),
        indexer=IndexerRule(layers="attention"),
        tensor_split=False,
        state_rollback=True,
        multi_axis_rope="always",
        hyper_connected_output=True,
        reads_ple=True,
    ),
    Architecture(
        name="rwkv6", memory="recurrent", state=StateRule(family="rwkv", layers="all"), ties_embeddings="never"
    ),
    Architecture(
        name="rwkv6qwen2", memory="recurrent", state=StateRule(family="rwkv", layers="all"), ties_embeddings="never"
    ),
    Architecture(
        name="rwkv7", memory="recurrent", state=StateRule(family="rwkv", layers="all"), ties_embeddings="never"
    ),
)
