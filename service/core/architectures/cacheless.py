"""Architectures that keep no cache: encoders, diffusion models, and names without a language model.

Source: src/llama-arch.cpp, src/llama-model.cpp:2352-2840 and src/models/*.cpp (llama.cpp in llama-cpp-python 0.3.36).
"""

from service.core.architectures.architecture import Architecture
from service.core.architectures.window import SlidingWindow

CACHELESS = (
    Architecture(name="bert", memory="none", ties_embeddings="never"),
    Architecture(
        name="clip",
        memory="none",
        ties_embeddings="never",
        tensor_split=False,
        unloadable="a vision projector (mmproj) is no language model: give it as mmproj of a language model",
    ),
    Architecture(name="dream", memory="none", causal=False),
    Architecture(name="eurobert", memory="none", ties_embeddings="never"),
    Architecture(name="gemma-embedding", memory="none", window=SlidingWindow(period=6, kind="symmetric"), causal=False),
    Architecture(
        name="gptj",
        memory="none",
        ties_embeddings="never",
        tensor_split=False,
        unloadable="llama.cpp registers the name but has no loader for it: use another engine",
    ),
    Architecture(name="jina-bert-v2", memory="none", ties_embeddings="never"),
    Architecture(name="jina-bert-v3", memory="none", ties_embeddings="never"),
    Architecture(name="llada", memory="none", causal=False),
    Architecture(name="llada-moe", memory="none", ties_embeddings="never", causal=False),
    Architecture(
        name="modern-bert",
        memory="none",
        window=SlidingWindow(period=3, kind="symmetric", dense_first=True, condition="positive"),
        ties_embeddings="never",
    ),
    Architecture(name="neo-bert", memory="none", ties_embeddings="never"),
    Architecture(name="nomic-bert", memory="none", ties_embeddings="never"),
    Architecture(name="nomic-bert-moe", memory="none", ties_embeddings="never"),
    Architecture(name="rnd1", memory="none", causal=False),
    Architecture(name="wavtokenizer-dec", memory="none", ties_embeddings="never", features_are_embedding=True),
)
