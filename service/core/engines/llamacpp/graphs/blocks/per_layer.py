"""Why blocks that are equal must sometimes be built one by one all the same."""

from service.core.architectures.hparams import Hparams


def every_layer(_hp: Hparams, il: int) -> int:
    """Layer key that keeps equal blocks apart, for blocks each of which takes memory before the first one runs.

    Leafs that a block makes (tensors of zeros) are placed before all nodes, and every view that a block takes of an
    input is copied to its device by itself, where its split begins.

    Source: ggml_gallocr_alloc_graph_impl, ggml/src/ggml-alloc.c:718-729, and ggml_backend_sched_split_graph,
    ggml/src/ggml-backend.cpp:1371-1407 (llama.cpp in llama-cpp-python 0.3.36).
    """
    return il
