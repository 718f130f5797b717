"""Which layers of an architecture attend to a sliding window, as facts."""

from dataclasses import dataclass
from typing import Literal

WindowKind = Literal["standard", "chunked", "symmetric"]
SwaType = Literal["none", "standard", "chunked", "symmetric"]
WindowedLayers = Literal["period", "array", "attention", "all"]
WindowCondition = Literal["always", "positive", "unless_zero"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingWindow:
    """How an architecture reads its window from `attention.sliding_window` and its pattern key.

    kind: the mask (llama_swa_type).
    layers: "period", every layer but one in `period` unless the file carries a pattern array or scalar; "array", the
    file must carry one flag per layer; "attention", every layer that is not recurrent; "all", every layer.
    period, dense_first: the default pattern; the dense layer is the last of each period, or the first.
    condition: "always"; "positive", only where the key exists and is > 0; "unless_zero", unless it exists and is 0.
    default_tokens: the window where the key is missing (None: the key is required under "always").
    forced_tokens: the window whatever the key says.
    only_trunk_layers: the model size (number of trunk layers) that has a window at all.
    all_if_hyper_connected: with hyper-connections every layer is windowed and no pattern is read.

    Source: src/llama-hparams.h:16-22, src/llama-model.cpp:3434-3441 (load_swa_pattern) and load_arch_hparams in
    src/models/*.cpp (llama.cpp in llama-cpp-python 0.3.36).
    """

    kind: WindowKind = "standard"
    layers: WindowedLayers = "period"
    period: int = 0
    dense_first: bool = False
    condition: WindowCondition = "always"
    default_tokens: int | None = None
    forced_tokens: int | None = None
    only_trunk_layers: int | None = None
    all_if_hyper_connected: bool = False
