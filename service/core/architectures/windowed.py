"""Architectures some of whose layers attend to a sliding window.

Source: src/llama-arch.cpp, src/llama-model.cpp:2352-2840 and src/models/*.cpp (llama.cpp in llama-cpp-python 0.3.36).
"""

from service.core.architectures.architecture import Architecture
from service.core.architectures.window import SlidingWindow

WINDOWED = (
    Architecture(name="afmoe", window=SlidingWindow(period=4, condition="positive")),
    Architecture(name="cohere2", window=SlidingWindow(period=4), ties_embeddings="always"),
    Architecture(name="cohere2moe", window=SlidingWindow(period=4, dense_first=True)),
    Architecture(
        name="dflash",
        window=SlidingWindow(layers="array", condition="positive", all_if_hyper_connected=True),
        encoder=True,
        multi_axis_rope="with_sections",
        needs_target="without_embeddings",
        drafts_as="draft-dflash",
    ),
    Architecture(name="exaone-moe", window=SlidingWindow(period=4)),
    Architecture(name="exaone4", window=SlidingWindow(period=4, default_tokens=4096, only_trunk_layers=64)),
    Architecture(
        name="gemma2",
        window=SlidingWindow(period=2, default_tokens=4096),
        ties_embeddings="always",
        attn_logit_softcap=50.0,
        final_logit_softcap=30.0,
    ),
    Architecture(name="gemma3", window=SlidingWindow(period=6, condition="positive")),
    Architecture(
        name="gemma3n",
        window=SlidingWindow(period=5),
        kv_layers_from_start=20,
        tensor_split=False,
        final_logit_softcap=30.0,
    ),
    Architecture(
        name="gemma4", window=SlidingWindow(layers="array"), reads_shared_kv_layers=True, final_logit_softcap=30.0
    ),
    Architecture(
        name="gemma4-assistant",
        memory="borrowed",
        window=SlidingWindow(layers="array"),
        ties_embeddings="always",
        input_is_output_width=True,
        needs_target="always",
        drafts_as="draft-mtp",
    ),
    Architecture(name="gpt-oss", window=SlidingWindow(period=2), ties_embeddings="never"),
    Architecture(name="granite_swa", window=SlidingWindow(layers="array")),
    Architecture(
        name="laguna",
        window=SlidingWindow(period=4, dense_first=True, condition="positive"),
        n_expert_shared_default=1,
        n_ff_shexp_from_experts=True,
    ),
    Architecture(
        name="llama4", window=SlidingWindow(period=4, kind="chunked", condition="unless_zero", forced_tokens=8192)
    ),
    Architecture(name="maple", window=SlidingWindow(layers="array"), ties_embeddings="never"),
    Architecture(name="mellum", window=SlidingWindow(period=4, condition="positive"), ties_embeddings="never"),
    Architecture(name="mimo2", window=SlidingWindow(layers="array"), ties_embeddings="never"),
    Architecture(
        name="muse-glimmer", window=SlidingWindow(period=4), ties_embeddings="never", final_logit_softcap=30.0
    ),
    Architecture(
        name="olmo2", window=SlidingWindow(period=4, condition="positive"), ties_embeddings="never", tensor_split=False
    ),
    Architecture(name="plamo3", window=SlidingWindow(period=8, condition="positive")),
    Architecture(
        name="smallthinker", window=SlidingWindow(period=4, dense_first=True, condition="positive", forced_tokens=4096)
    ),
    Architecture(name="spark2_5", window=SlidingWindow(layers="array")),
    Architecture(name="step35", window=SlidingWindow(layers="array"), ties_embeddings="never", halves_full_rope=True),
)
