"""The arguments that llama-fit-params prints."""

from collections.abc import Iterator

from service.core.engines.llamacpp.fit.question import FitQuestion
from service.core.engines.llamacpp.overrides import EXPERTS_PATTERN
from service.core.engines.llamacpp.settings import LlamaCppSettings

AUTO_LAYERS, ALL_LAYERS = -1, -2
"""What -ngl is where it is left open, and for "all" (common/arg.cpp:2789, llama.cpp in llama-cpp-python 0.3.36)."""


def fit_arguments(question: FitQuestion, settings: LlamaCppSettings, context_tokens: int) -> tuple[str, ...]:
    """Context, layers, shares and overrides; `deviceN` stands for the buffer type of the N-th device.

    Shares are given where a device behind the first has one, and end with the last that has.
    Source: tools/fit-params/fit-params.cpp:47-77 (llama.cpp in llama-cpp-python 0.3.36).
    """
    arguments = ["-c", str(context_tokens), "-ngl", str(layers_argument(settings))]
    shares = list(settings.tensor_split or ())
    while shares and shares[-1] == 0:
        shares.pop()
    if len(shares) > 1:
        arguments += ["-ts", ",".join(map(_number, shares))]
    overrides = ",".join(_overrides(question, settings))
    if overrides:
        arguments += ["-ot", overrides]
    return tuple(arguments)


def layers_argument(settings: LlamaCppSettings) -> int:
    """The number that -ngl comes to."""
    if settings.n_gpu_layers is None:
        return AUTO_LAYERS
    return ALL_LAYERS if settings.n_gpu_layers == "all" else settings.n_gpu_layers


def _overrides(question: FitQuestion, settings: LlamaCppSettings) -> Iterator[str]:
    """Overrides, and those that --n-cpu-moe stands for. Source: common/common.h:1198-1217."""
    names = {device.buffer_type: f"device{index}" for index, device in enumerate(question.devices)}
    for entry in settings.override_tensor:
        yield f"{entry.pattern}={names.get(entry.buffer_type, entry.buffer_type)}"
    for block in range(min(settings.n_cpu_moe or 0, question.hp.n_layer_all)):
        yield rf"blk\.{block}{EXPERTS_PATTERN}=CPU"


def _number(share: float) -> str:
    return str(int(share)) if share == int(share) else repr(share)
