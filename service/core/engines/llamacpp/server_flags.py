"""Flags of llama-server for a plan: what differs from a default, and what must not be left to one."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from service.core.architectures.hparams import read_hparams
from service.core.engines.llamacpp.cache_types import DEFAULT_CACHE_TYPE
from service.core.engines.llamacpp.devices import engine_devices, listed_devices
from service.core.engines.llamacpp.flag import Flag, addresses, file_name, number, override_entry
from service.core.engines.llamacpp.flag_history import knows
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.engines.llamacpp.versions import VersionRules, version_rules
from service.core.types import Model, Rig, Workload

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


def server_flags(model: Model, rig: Rig, settings: LlamaCppSettings, workload: Workload) -> Iterator[Flag]:
    """Every flag of the model itself, in the order people write them.

    Source: common/arg.cpp (llama.cpp in llama-cpp-python 0.3.36); versions.py and flag_history.py for older builds.
    """
    rules, plain = version_rules(settings.version, settings.date), settings.without_shares
    hp = read_hparams(model)
    yield from _first(model, rig, plain)
    context_tokens = hp.n_ctx_train if workload.context_tokens is None else workload.context_tokens
    yield Flag(("-c", str(context_tokens)), "Context in tokens, all streams together; else the trained one is taken.")
    yield from _stream_flags(settings, workload, rules)
    if rig.gpus:
        yield _layers(settings, rules)
    yield from split_flags(settings, ",")
    yield from _last(model, rig, plain)


@lru_cache(maxsize=1024)
def _first(model: Model, rig: Rig, settings: LlamaCppSettings) -> tuple[Flag, ...]:
    """The model and the cards."""
    rules = version_rules(settings.version, settings.date)
    devices = device_flags(rig, settings, ",") if rules.has("device_list") else ()
    named = Flag(("-m", file_name(model)), "The model's GGUF file: put your path here.")
    return (named, *rpc_flags(rig, "--rpc"), *devices)


@lru_cache(maxsize=1024)
def _last(model: Model, rig: Rig, settings: LlamaCppSettings) -> tuple[Flag, ...]:
    """What depends neither on the workload nor on how layers are divided."""
    return tuple(_others(model, rig, settings, version_rules(settings.version, settings.date)))


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


def split_flags(settings: LlamaCppSettings, separator: str) -> Iterator[Flag]:
    """How the cards share the model, where that is not by layer and by free memory."""
    mode = settings.split_mode
    if mode not in (None, "layer") and not runs_on_host(settings):
        yield Flag(("-sm", str(mode)), SPLIT_MODES[str(mode)])
    if mode in ("none", "row") and settings.main_gpu > 0:
        meaning = "The card that holds it." if mode == "none" else "The card that holds what is not split."
        yield Flag(("-mg", str(settings.main_gpu)), meaning)
    if settings.tensor_split is not None:
        shares = separator.join(number(share) for share in settings.tensor_split)
        yield Flag(("-ts", shares), "Shares of the cards, in llama.cpp's order of them; else free memory decides.")


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


def layers_on_cards(settings: LlamaCppSettings) -> int | None:
    """Layers asked for, None for all of them."""
    if runs_on_host(settings):
        return 0
    return None if settings.n_gpu_layers in (None, "all") else int(settings.n_gpu_layers)


def _layers(settings: LlamaCppSettings, rules: VersionRules) -> Flag:
    asked = layers_on_cards(settings)
    if asked is None:
        words = ("-ngl", "all" if knows(rules, "layers_in_words") else ALL_LAYERS)
        return Flag(words, "All layers on the cards, the output layer too; else llama.cpp decides how many.")
    return Flag(("-ngl", str(asked)), "So many layers on the cards, counted from the last; the others in main memory.")


def _stream_flags(settings: LlamaCppSettings, workload: Workload, rules: VersionRules) -> Iterator[Flag]:
    four = rules.has("server_default_slots")
    default = "; else the server starts four on one cache." if four else "; they share the context."
    yield Flag(("-np", str(workload.parallel)), f"Streams at once{default}")
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
