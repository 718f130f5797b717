"""Architectures whose cache holds compressed latents or indexer keys.

Source: src/llama-arch.cpp, src/llama-model.cpp:2352-2840 and src/models/*.cpp (llama.cpp in llama-cpp-python 0.3.36).
"""

from service.core.architectures.architecture import Architecture, IndexerRule
from service.core.architectures.window import SlidingWindow

LATENT = (
    Architecture(name="deepseek2", mla="optional", tensor_split=False),
    Architecture(
        name="deepseek32", memory="indexed", indexer=IndexerRule(layers="trunk"), mla="optional", tensor_split=False
    ),
    Architecture(
        name="deepseek4",
        memory="compressed",
        window=SlidingWindow(layers="all"),
        indexer=IndexerRule(layers="compressed"),
        ties_embeddings="never",
        state_rollback=True,
        nextn_needs_tensors=True,
        hyper_connected_output=True,
    ),
    Architecture(
        name="dots3note",
        memory="indexed_windowed",
        window=SlidingWindow(layers="array"),
        indexer=IndexerRule(layers="types", types="required"),
        mla="required",
        tensor_split=False,
    ),
    Architecture(
        name="glm-dsa",
        memory="indexed",
        indexer=IndexerRule(layers="types", types="glm_5_2"),
        mla="optional",
        tensor_split=False,
    ),
    Architecture(
        name="hy_v4",
        memory="indexed",
        indexer=IndexerRule(layers="types", types="zeros", optional=True),
        mla="required",
        ties_embeddings="never",
        tensor_split=False,
    ),
    Architecture(
        name="minimax-m3",
        memory="block_indexed",
        indexer=IndexerRule(layers="after_dense_lead"),
        ties_embeddings="never",
        tensor_split=False,
    ),
    Architecture(name="mistral4", mla="optional", tensor_split=False),
)
