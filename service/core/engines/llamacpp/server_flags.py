"""Flags of llama-server for a plan: what differs from a default, and what must not be left to one."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from service.core.architectures.hparams import read_hparams
from service.core.engines.llamacpp.cache_types import DEFAULT_CACHE_TYPE
from service.core.engines.llamacpp.devices import engine_devices, listed_devices
from service.core.engines.llamacpp.flag import (
    Flag,
    FlagRun,
    addresses,
    file_name,
    number,
    override_entry,
    plain_run,
    run_of,
)
from service.core.engines.llamacpp.flag_history import knows
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.engines.llamacpp.versions import VersionRules, version_rules
from service.core.types import Model, Rig, Workload

Layers: TypeAlias = int | Literal["all"] | None
DEFAULT_BATCH_TOKENS: Final = 2048
DEFAULT_UBATCH_TOKENS: Final = 512

ALL_LAYERS: Final = "999"
"""What -ngl takes for all layers in builds that do not know the word "all"."""

SPLIT_MODES: Final = {
    "none": "All of it on one card.",
    "layer": "Whole layers on each card, one card after the other.",
    "row": "The rows of every weight over the cards.",
    "tensor": "Every layer over all cards at once; they add up partial results twice per layer, the way "
    "GGML_CUDA_ALLREDUCE (nccl, internal, none) says or llama.cpp chooses.",
}


def server_flags(
    model: Model, rig: Rig, settings: LlamaCppSettings, workload: Workload
) -> tuple[FlagRun, ...]:  # fmt: skip
    """Every flag of the model itself, in the order people write them.

    Source: common/arg.cpp (llama.cpp in llama-cpp-python 0.3.36); versions.py and flag_history.py for older builds.
    """
    plain, context_tokens = settings.without_shares, workload.context_tokens
    if context_tokens is None:
        context_tokens = read_hparams(model).n_ctx_train
    return (
        _first(model, rig, plain),
        plain_run("-c", str(context_tokens), "Context in tokens, all streams together; else the trained one is taken."),
        _counts(plain, settings.n_gpu_layers, workload.parallel, has_cards=bool(rig.gpus)),
        *shares_run(settings, ","),
        _last(model, rig, plain),
    )


@lru_cache(maxsize=1024)
def _first(model: Model, rig: Rig, settings: LlamaCppSettings) -> FlagRun:
    """The model and the cards."""
    rules = version_rules(settings.version, settings.date)
    devices = device_flags(rig, settings, ",") if rules.has("device_list") else ()
    named = Flag(("-m", file_name(model)), "The model's GGUF file: put your path here.")
    return run_of((named, *rpc_flags(rig, "--rpc"), *devices))


@lru_cache(maxsize=1024)
def _counts(settings: LlamaCppSettings, n_gpu_layers: Layers, parallel: int, *, has_cards: bool) -> FlagRun:
    """Streams, layers, and how the cards share them; settings: without shares and a number of layers."""
    rules = version_rules(settings.version, settings.date)
    layers = [_layers(settings, n_gpu_layers, rules)] if has_cards else []
    return run_of((*_stream_flags(settings, parallel, rules), *layers, *mode_flags(settings)))


@lru_cache(maxsize=1024)
def _last(model: Model, rig: Rig, settings: LlamaCppSettings) -> FlagRun:
    """What depends neither on the workload nor on how layers are divided."""
    return run_of(_others(model, rig, settings, version_rules(settings.version, settings.date)))


def _others(model: Model, rig: Rig, settings: LlamaCppSettings, rules: VersionRules) -> Iterator[Flag]:
    yield from batch_flags(settings, rules)
    yield from _flash_attention_flags(settings, rules)
    yield from cache_type_flags(settings)
    if settings.swa_full and rules.has("windowed_cache"):
        yield Flag(("--swa-full",), "Full context on sliding-window layers too.")
    if not settings.kv_offload:
        yield Flag(("-nkvo",), "The KV cache stays in main memory.")
    if settings.override_tensor:
        entries = ",".join(override_entry(override, rig) for override in settings.override_tensor)
        yield Flag(
            ("-ot", entries), "Tensors whose name a pattern finds go to that buffer type; the first match counts."
        )
    yield from n_cpu_moe_flags(model, settings)
    if rules.has("fit_by_default"):
        yield Flag(("-fit", "off"), "Nothing is changed to make it fit, so that it runs as planned.")


def device_flags(rig: Rig, settings: LlamaCppSettings, separator: str) -> Iterator[Flag]:
    """Devices that are listed, or none for the host alone."""
    if runs_on_host(settings):
        yield Flag(("-dev", "none"), "No card.")
    elif settings.devices is not None:
        names = (device.name for device in listed_devices(engine_devices(rig), settings.devices))
        yield Flag(("-dev", separator.join(names)), "Only these cards, in this order; --list-devices shows all names.")


def runs_on_host(settings: LlamaCppSettings) -> bool:
    """Whether split mode none keeps the model off every card."""
    return settings.split_mode == "none" and settings.main_gpu < 0


def rpc_flags(rig: Rig, flag: str) -> Iterator[Flag]:
    """The servers of a rig."""
    if servers := addresses(rig):
        yield Flag((flag, ",".join(servers)), "Addresses of the RPC servers: put yours here, in this order.")


def mode_flags(settings: LlamaCppSettings) -> Iterator[Flag]:
    """How the cards share the model, where that is not by layer."""
    mode = settings.split_mode
    if mode not in (None, "layer") and not runs_on_host(settings):
        yield Flag(("-sm", str(mode)), SPLIT_MODES[str(mode)])
    if mode in ("none", "row") and settings.main_gpu > 0:
        meaning = "The card that holds it." if mode == "none" else "The card that holds what is not split."
        yield Flag(("-mg", str(settings.main_gpu)), meaning)


def shares_run(settings: LlamaCppSettings, separator: str) -> tuple[FlagRun, ...]:
    """Shares of the cards, where they are not those of free memory."""
    if settings.tensor_split is None:
        return ()
    shares = separator.join([number(share) for share in settings.tensor_split])
    meaning = "Shares of the cards, in llama.cpp's order of them; else free memory decides."
    return (plain_run("-ts", shares, meaning),)


def batch_flags(settings: LlamaCppSettings, rules: VersionRules) -> Iterator[Flag]:
    """Batches that are not the default; one size was both once."""
    if not knows(rules, "physical_batch"):
        if settings.n_ubatch != DEFAULT_UBATCH_TOKENS:
            yield Flag(("-b", str(settings.n_ubatch)), "Tokens per pass.")
        return
    if settings.n_batch != DEFAULT_BATCH_TOKENS:
        yield Flag(("-b", str(settings.n_batch)), "Tokens per batch.")
    if settings.n_ubatch != DEFAULT_UBATCH_TOKENS:
        yield Flag(("-ub", str(settings.n_ubatch)), "Tokens per pass: compute buffers grow with it.")


def cache_type_flags(settings: LlamaCppSettings) -> Iterator[Flag]:
    """Types of the cache that are not the default."""
    for flag, cache_type, what in (("-ctk", settings.cache_type_k, "keys"), ("-ctv", settings.cache_type_v, "values")):
        if cache_type not in (None, DEFAULT_CACHE_TYPE):
            yield Flag((flag, str(cache_type)), f"Type that the cache keeps {what} in.")


def n_cpu_moe_flags(model: Model, settings: LlamaCppSettings) -> Iterator[Flag]:
    """Experts that stay on the host, by the number of blocks."""
    if settings.n_cpu_moe:
        blocks = min(settings.n_cpu_moe, read_hparams(model).n_layer_all)
        yield Flag(("-ncmoe", str(blocks)), "Routed experts of so many first blocks stay in main memory.")


def layers_on_cards(settings: LlamaCppSettings, n_gpu_layers: Layers) -> int | None:
    """Layers asked for, None for all of them."""
    if runs_on_host(settings):
        return 0
    return None if n_gpu_layers in (None, "all") else int(n_gpu_layers)


def _layers(settings: LlamaCppSettings, n_gpu_layers: Layers, rules: VersionRules) -> Flag:
    asked = layers_on_cards(settings, n_gpu_layers)
    if asked is None:
        words = ("-ngl", "all" if knows(rules, "layers_in_words") else ALL_LAYERS)
        return Flag(words, "All layers on the cards, the output layer too; else llama.cpp decides how many.")
    return Flag(("-ngl", str(asked)), "So many layers on the cards, counted from the last; the others in main memory.")


def _stream_flags(settings: LlamaCppSettings, parallel: int, rules: VersionRules) -> Iterator[Flag]:
    four = rules.has("server_default_slots")
    default = "; else the server starts four on one cache." if four else "; they share the context."
    yield Flag(("-np", str(parallel)), f"Streams at once{default}")
    if settings.kv_unified and rules.has("separate_streams"):
        yield Flag(("-kvu",), "One cache for all streams, each as long as it needs.")


def _flash_attention_flags(settings: LlamaCppSettings, rules: VersionRules) -> Iterator[Flag]:
    """Before flash attention was automatic, -fa was a switch without a value, off unless given."""
    if settings.flash_attn is None:
        return
    if rules.has("flash_attn_auto"):
        yield Flag(("-fa", "on" if settings.flash_attn else "off"), "Flash attention; else on where the cards have it.")
    elif settings.flash_attn:
        yield Flag(("-fa",), "Flash attention.")
