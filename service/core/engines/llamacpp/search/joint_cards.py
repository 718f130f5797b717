"""Cards that work on every layer together, in split mode tensor."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from service.core.engines.llamacpp.question import Question
from service.core.engines.llamacpp.search.judge import Judge
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.engines.llamacpp.versions import version_rules
from service.core.types import Gpu

PAIR: Final = 2
"""Cards whose reductions have kernels of their own (ggml/src/ggml-cuda/ggml-cuda.cu:1119-1248)."""


def may_join(question: Question, settings: LlamaCppSettings) -> bool:
    """Whether llama.cpp has split mode tensor for this model, version and these settings, and its planner may use it.

    Reductions over cards of different backends go through the host's generic code, and weights longer than one buffer
    of the backend stop the engine, so that only like backends without such a limit are joined.
    Source: src/llama-arch.cpp:1142-1180, src/llama-context.cpp:3827, ggml/src/ggml-backend-meta.cpp
    (llama.cpp in llama-cpp-python 0.3.36).
    """
    rules = version_rules(settings.version, settings.date)
    backends = {gpu.backend for gpu in question.rig.gpus}
    return (
        settings.split_mode is None
        and rules.has("tensor_split_mode")
        and question.hp.arch.tensor_split
        and settings.flash_attn is not False
        and not settings.override_tensor
        and not settings.n_cpu_moe
        and backends <= {"cuda", "rocm"}
        and len(backends) == 1
    )


def fastest_joint(judge: Judge, settings: LlamaCppSettings, context_tokens: int) -> LlamaCppSettings | None:
    """The best settings in split mode tensor that have room for all but compute buffers; None where none have.

    settings: with n_gpu_layers and without a split. Candidates, of which the one with the most bandwidth comes first:
    the cards of each kind by themselves, and two unlike ones with shares by bandwidth; more unlike ones would all wait
    for the slowest of many reductions.
    """
    candidates = _candidates(judge.question, settings)
    fitting = (each for each in candidates if judge.question.hold(each, context_tokens).fits)
    return next(fitting, None)


def _candidates(question: Question, settings: LlamaCppSettings) -> Sequence[LlamaCppSettings]:
    gpus = question.rig.gpus
    positions = range(len(gpus)) if settings.devices is None else _positions(settings.devices)
    cards = [gpus[position] for position in positions]
    if len(cards) < PAIR or not may_join(question, settings) or not all(gpu.bandwidth_bytes_per_s for gpu in cards):
        return ()
    joint = replace(settings, split_mode="tensor")
    kinds = dict.fromkeys(cards)
    if len(kinds) == 1:
        return (joint,)
    found = []
    if len(cards) == PAIR:
        found.append((_bandwidth(cards), replace(joint, tensor_split=bandwidth_shares(cards))))
    for kind in kinds:
        same = tuple(position for position, gpu in zip(positions, cards, strict=True) if gpu == kind)
        if len(same) > 1:
            found.append((_bandwidth([kind] * len(same)), replace(joint, devices=same)))
    return [each for _, each in sorted(found, key=lambda candidate: -candidate[0])]


def _bandwidth(cards: Sequence[Gpu]) -> float:
    return sum(gpu.bandwidth_bytes_per_s or 0.0 for gpu in cards)


def _positions(devices: Sequence[int | str]) -> Sequence[int]:
    return [device for device in devices if isinstance(device, int)]


def bandwidth_shares(cards: Sequence[Gpu]) -> tuple[float, ...]:
    """Shares in proportion to the cards' bandwidth, in GB/s."""
    return tuple(float(round((gpu.bandwidth_bytes_per_s or 0.0) / 1e9)) for gpu in cards)
