"""Environment variables that a plan needs, with what they do."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from service.core.engines.llamacpp.devices import engine_devices, listed_devices
from service.core.engines.llamacpp.flag import Flag
from service.core.engines.llamacpp.flag_history import knows
from service.core.engines.llamacpp.settings import LlamaCppSettings, SplitMode, Tool
from service.core.engines.llamacpp.versions import VersionRules, version_rules
from service.core.types import Backend, Rig

_VISIBLE: Final[dict[Backend, str]] = {
    "cuda": "CUDA_VISIBLE_DEVICES",
    "rocm": "HIP_VISIBLE_DEVICES",
    "vulkan": "GGML_VK_VISIBLE_DEVICES",
}
"""What hides cards from a program and orders the others, by backend."""


def environment(rig: Rig, settings: LlamaCppSettings, tool: Tool, *, peer_access: bool = False) -> tuple[Flag, ...]:
    """Variables as (name, value) words; peer_access: whether the cards are said to copy to each other directly.

    Source: ggml/src/ggml-cuda/ggml-cuda.cu:386-399, docs/multi-gpu.md (llama.cpp in llama-cpp-python 0.3.36); CUDA
    toolkit documentation, environment variables.
    """
    return _environment(
        rig,
        settings.split_mode,
        None if settings.override_tensor else settings.devices,
        tool,
        version_rules(settings.version, settings.date),
        peer_access=peer_access,
    )


@lru_cache(maxsize=1024)
def _environment(
    rig: Rig,
    split_mode: SplitMode | None,
    devices: tuple[int | str, ...] | None,
    tool: Tool,
    rules: VersionRules,
    *,
    peer_access: bool,
) -> tuple[Flag, ...]:
    """The same by what it depends on, remembered; devices: those listed, where nothing names cards."""
    return tuple(_variables(rig, split_mode, devices, tool, rules, peer_access=peer_access))


def _variables(
    rig: Rig,
    split_mode: SplitMode | None,
    devices: tuple[int | str, ...] | None,
    tool: Tool,
    rules: VersionRules,
    *,
    peer_access: bool,
) -> Iterator[Flag]:
    cuda = [gpu.slug for gpu in rig.gpus if gpu.backend == "cuda"]
    if len(set(cuda)) > 1:
        yield Flag(
            ("CUDA_DEVICE_ORDER", "PCI_BUS_ID"), "Cards are numbered as nvidia-smi lists them, not fastest first."
        )
    yield from _visible(rig, devices, tool, rules)
    together = split_mode in ("tensor", "row") and len(cuda) > 1
    if peer_access and together and knows(rules, "peer_access_opt_in"):
        yield Flag(
            ("GGML_CUDA_P2P", "1"),
            "Cards copy to each other directly; some boards crash or corrupt data with it: leave it out then.",
        )


def _visible(
    rig: Rig, devices: tuple[int | str, ...] | None, tool: Tool, rules: VersionRules
) -> Iterator[Flag]:  # fmt: skip
    """Named devices for a program that has no flag for them."""
    if devices is None or tool == "llama-server" or rules.has("bench_device_list"):
        return
    backends = {gpu.backend for gpu in rig.gpus}
    name = _VISIBLE.get(next(iter(backends))) if len(backends) == 1 else None
    if name is not None:
        cards = listed_devices(engine_devices(rig), devices)
        yield Flag((name, ",".join(str(card.position) for card in cards)), "Only these cards, in this order.")
