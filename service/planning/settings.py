"""The engine part of a request as the engine's package reads it."""

from collections.abc import Sequence
from typing import Literal

from service.contract.engine import LlamaCppEngine
from service.core.engines.llamacpp.overrides import parse_override_tensor
from service.core.engines.llamacpp.settings import LlamaCppSettings, OverrideTensor

# what -ngl's numbers below zero mean (common/arg.cpp:2789, llama.cpp in llama-cpp-python 0.3.36)
_AUTO, _ALL = -1, -2


def settings_of(engine: LlamaCppEngine) -> LlamaCppSettings:
    """What the user fixed, None where it is left to the planner.

    Raises InvalidRequest for an `-ot` entry that is none.
    """
    return LlamaCppSettings(
        version=engine.version,
        date=_month(engine.date),
        tool=engine.tool,
        split_mode=engine.split_mode,
        main_gpu=engine.main_gpu,
        devices=None if engine.devices is None else tuple(engine.devices),
        tensor_split=None if engine.tensor_split is None else tuple(engine.tensor_split),
        n_gpu_layers=layers_of(engine.n_gpu_layers),
        n_batch=engine.n_batch,
        n_ubatch=engine.n_ubatch,
        flash_attn=engine.flash_attn,
        cache_type_k=engine.cache_type_k,
        cache_type_v=engine.cache_type_v,
        kv_unified=engine.kv_unified,
        swa_full=engine.swa_full,
        n_cpu_moe=engine.n_cpu_moe,
        override_tensor=overrides_of(engine.override_tensor),
        kv_offload=engine.kv_offload,
    )


def _month(date: str | None) -> str | None:
    """The last month of a year that is given alone."""
    return f"{date}-12" if date is not None and len(date) == len("YYYY") else date


def overrides_of(entries: Sequence[str]) -> tuple[OverrideTensor, ...]:
    """Entries of -ot; raises InvalidRequest for one that is none."""
    return tuple(override for entry in entries for override in parse_override_tensor(entry))


def layers_of(asked: int | Literal["all", "auto"] | None) -> int | Literal["all"] | None:
    """What -ngl means: a number of layers, all of them, or None where that is left open."""
    if asked in (None, "auto", _AUTO):
        return None
    return "all" if asked in ("all", _ALL) else asked  # type: ignore[return-value]
