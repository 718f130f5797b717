"""Flags of llama-bench for a plan: other separators, other defaults, no streams."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from service.core.architectures.hparams import read_hparams
from service.core.engines.llamacpp.cache_types import resolve_cache_types
from service.core.engines.llamacpp.flag import Flag, FlagRun, file_name, override_entry, run_of
from service.core.engines.llamacpp.flag_history import UNKNOWN_CACHE_TYPES, knows
from service.core.engines.llamacpp.flash_attention import resolve_flash_attention
from service.core.engines.llamacpp.overrides import EXPERTS_PATTERN
from service.core.engines.llamacpp.server_flags import (
    ALL_LAYERS,
    Layers,
    batch_flags,
    cache_type_flags,
    device_flags,
    layers_on_cards,
    mode_flags,
    n_cpu_moe_flags,
    rpc_flags,
    shares_run,
)
from service.core.engines.llamacpp.settings import LlamaCppSettings, OverrideTensor
from service.core.engines.llamacpp.versions import VersionRules, version_rules
from service.core.types import Model, Rig, Workload

_OLD_DEFAULT_LAYERS: Final = 99
_ESCAPED_OR_SEPARATOR: Final = re.compile(r"\\?;|\\.")


def bench_flags(
    model: Model, rig: Rig, settings: LlamaCppSettings, workload: Workload
) -> tuple[FlagRun, ...]:  # fmt: skip
    """Flags that measure the workload under the same placement, as far as the program of that time has them.

    Source: tools/llama-bench/llama-bench.cpp:400-1060 (llama.cpp in llama-cpp-python 0.3.36); flag_history.py.
    """
    plain = settings.without_shares
    prompt, answer, depth = workload.prompt_tokens, workload.output_tokens, workload.cached_tokens
    # where a second prompt behind the first would not fit the context, the answer is measured with its prompt
    most, context_tokens = depth + prompt + max(prompt, answer), workload.context_tokens
    tight = context_tokens is not None and most > context_tokens
    return (
        _before_shares(model, rig, plain, settings.n_gpu_layers, (prompt, answer, depth), tight=tight),
        *shares_run(settings, "/"),
        _last(model, rig, plain),
    )


@lru_cache(maxsize=1024)
def _before_shares(
    model: Model,
    rig: Rig,
    settings: LlamaCppSettings,
    n_gpu_layers: Layers,
    tokens: tuple[int, int, int],
    *,
    tight: bool,
) -> FlagRun:
    """The model, the cards, the tests and the layers.

    settings: without shares and a number of layers; tokens: of the prompt, of the answer, and cached before both.
    """
    rules = version_rules(settings.version, settings.date)
    named = Flag(("-m", file_name(model)), "The model's GGUF file: put your path here.")
    devices = device_flags(rig, settings, "/") if rules.has("bench_device_list") else ()
    layers = _layers(model, settings, n_gpu_layers, rules) if rig.gpus else ()
    tests = _tests(*tokens, rules, tight=tight)
    return run_of((named, *rpc_flags(rig, "-rpc"), *devices, *tests, *layers, *mode_flags(settings)))


@lru_cache(maxsize=1024)
def _last(model: Model, rig: Rig, settings: LlamaCppSettings) -> FlagRun:
    """What depends neither on the workload nor on how layers are divided."""
    return run_of(_others(model, rig, settings, version_rules(settings.version, settings.date)))


def _others(model: Model, rig: Rig, settings: LlamaCppSettings, rules: VersionRules) -> Iterator[Flag]:
    yield from batch_flags(settings, rules)
    yield from _flash_attention_flags(model, rig, settings, rules)
    yield from (flag for flag in cache_type_flags(settings) if flag.words[1] not in UNKNOWN_CACHE_TYPES)
    if not settings.kv_offload:
        yield Flag(("-nkvo", "1"), "The KV cache stays in main memory.")
    yield from _override_flags(model, rig, settings, rules)
    if knows(rules, "bench_n_cpu_moe"):
        yield from n_cpu_moe_flags(model, settings)


def _tests(prompt: int, answer: int, depth: int, rules: VersionRules, *, tight: bool) -> Iterator[Flag]:
    """The prompt behind what is cached, and the answer behind both; tight: in one test, as the context is short."""
    yield Flag(("-p", str(prompt)), "Prompt tokens to process.")
    if tight or not knows(rules, "bench_depth"):
        yield Flag(("-n", "0"), "No answer without its prompt.")
        yield Flag(("-pg", f"{prompt},{answer}"), "The prompt and its answer, measured together.")
        depths = str(depth)
    else:
        yield Flag(("-n", str(answer)), "Tokens to generate.")
        depths = f"{depth},{depth + prompt}"
    if depths != "0" and knows(rules, "bench_depth"):
        meaning = "Tokens cached before a test: the prompt is predicted at the first depth, the answer at the last."
        yield Flag(("-d", depths), meaning)


def _layers(
    model: Model, settings: LlamaCppSettings, n_gpu_layers: Layers, rules: VersionRules
) -> Iterator[Flag]:  # fmt: skip
    """All layers are the default, in older builds 99 of them."""
    asked = layers_on_cards(settings, n_gpu_layers)
    if asked is not None:
        yield Flag(("-ngl", str(asked)), "So many layers on the cards, counted from the last.")
    elif not knows(rules, "bench_flash_attn_words") and read_hparams(model).n_layer_all >= _OLD_DEFAULT_LAYERS:
        yield Flag(("-ngl", ALL_LAYERS), "All layers on the cards.")


def _flash_attention_flags(model: Model, rig: Rig, settings: LlamaCppSettings, rules: VersionRules) -> Iterator[Flag]:
    """Automatic, or off in older builds, which therefore have to be told what the server does by itself."""
    meaning = "Flash attention."
    if knows(rules, "bench_flash_attn_words"):
        if settings.flash_attn is not None:
            yield Flag(("-fa", "on" if settings.flash_attn else "off"), meaning)
        return
    backends = tuple([gpu.backend for gpu in rig.gpus])
    types, hp = resolve_cache_types(settings), read_hparams(model)
    if resolve_flash_attention(hp, settings, types, rules, backends).enabled:
        yield Flag(("-fa", "1"), meaning)


def _override_flags(model: Model, rig: Rig, settings: LlamaCppSettings, rules: VersionRules) -> Iterator[Flag]:
    """Overrides, and experts on the host by pattern in builds without their flag."""
    if not knows(rules, "bench_override_tensor"):
        return
    overrides = [*settings.override_tensor]
    if settings.n_cpu_moe and not knows(rules, "bench_n_cpu_moe"):
        blocks = min(settings.n_cpu_moe, read_hparams(model).n_layer_all)
        overrides += [OverrideTensor(pattern=rf"blk\.{il}{EXPERTS_PATTERN}", buffer_type="CPU") for il in range(blocks)]
    if overrides:
        entries = ";".join(_separable(override_entry(override, rig)) for override in overrides)
        yield Flag(("-ot", entries), "Tensors whose name a pattern finds go to that buffer type.")


def _separable(entry: str) -> str:
    """An entry without the character that separates entries, which a pattern may name by its code."""
    return _ESCAPED_OR_SEPARATOR.sub(lambda found: r"\x3b" if found[0].endswith(";") else found[0], entry)
