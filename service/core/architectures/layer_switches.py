"""What single layers do differently beyond their tensors: rope, limits of gated units, further input features."""

from typing import TypedDict

from service.core.architectures.metadata import Metadata
from service.core.architectures.shape import Layers, blocks, spread


class LayerSwitches(TypedDict):
    """One entry per layer."""

    rope_pattern: tuple[int, ...]
    swiglu_clamp_exp: tuple[float, ...]
    swiglu_clamp_shexp: tuple[float, ...]
    deepstack_mapping: tuple[int, ...]


def read_layer_switches(meta: Metadata, layers: Layers) -> LayerSwitches:
    """Which layers rotate, how far gated units are limited, and which part of the input each layer adds (-1: none).

    Only some architectures look at each of them. Limits are empty where the file does not state them.

    Source: src/models/granite-swa.cpp:9-50, granite.cpp:13, step35.cpp:28, maple.cpp:16, deepseek4.cpp:36; arrays may
    be shorter than the model: llama_model_loader::get_arr (llama.cpp in llama-cpp-python 0.3.36).
    """
    n_blocks = blocks(layers)
    rope = meta.array("attention.rope_pattern") or ()
    mapping = meta.array("deepstack_mapping", lowest=-1) or ()
    return LayerSwitches(
        rope_pattern=spread(_filled(rope, n_blocks, 1), layers, 0),
        swiglu_clamp_exp=meta.numbers_per_layer("swiglu_clamp_exp", n_blocks),
        swiglu_clamp_shexp=meta.numbers_per_layer("swiglu_clamp_shexp", n_blocks),
        deepstack_mapping=spread(_filled(mapping, n_blocks, -1), layers, -1),
    )


def _filled(entries: tuple[int, ...], n_blocks: int, default: int) -> tuple[int, ...]:
    """An array's entries for the first blocks and `default` for those it does not reach."""
    return (*entries, *(default,) * n_blocks)[:n_blocks]
