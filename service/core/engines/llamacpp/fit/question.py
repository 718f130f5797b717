"""What llama.cpp's own fit is asked, and how it measures one set of parameters."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from service.core.architectures.hparams import Hparams, read_hparams
from service.core.engines.llamacpp.placement import place
from service.core.engines.llamacpp.placement_inputs import placement_inputs
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.engines.llamacpp.versions import version_rules
from service.core.problems import InvalidRequest, Unsupported
from service.core.types import Model, Rig, Workload
from service.core.units import GIB

DEFAULT_MARGIN_BYTES: Final = GIB
"""What is left free on every device (--fit-target)."""

LEAST_CONTEXT_TOKENS: Final = 4096
"""Context per stream that is kept before layers go to the host (--fit-ctx)."""

UINT32_MAX: Final = 2**32 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FitDevice:
    """A card the model is spread over: its buffer type as -ot spells it, and what is free on it."""

    position: int
    buffer_type: str
    free_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Need of every device and of the host; weights_bytes: of the weights on all devices together."""

    device_bytes: tuple[int, ...]
    weights_bytes: int
    host_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FitQuestion:
    """A model, what the user fixed, and the memory it is fitted to; devices in llama.cpp's order.

    Source: common_params_fit_impl, common/fit.cpp:178-320; defaults: common/common.h:478-483
    (llama.cpp in llama-cpp-python 0.3.36).
    """

    model: Model
    hp: Hparams
    rig: Rig
    settings: LlamaCppSettings
    workload: Workload
    devices: tuple[FitDevice, ...]
    margin_bytes: int = DEFAULT_MARGIN_BYTES
    least_context_tokens: int = LEAST_CONTEXT_TOKENS

    @property
    def n_layer(self) -> int:
        """Layers that fit counts besides the output: draft layers are left out, although the loader counts them."""
        return self.hp.n_layer

    @property
    def n_streams(self) -> int:
        """Streams with a part of the cache each."""
        return 1 if self.settings.kv_unified else self.workload.parallel

    @property
    def largest_context(self) -> int:
        """Context of all streams where the user left it open: the trained one for each."""
        return min(self.hp.n_ctx_train * self.n_streams, UINT32_MAX)

    @property
    def least_context(self) -> int:
        """Context of all streams that is never gone below."""
        return min(self.least_context_tokens * self.n_streams, UINT32_MAX)

    @property
    def free_bytes(self) -> tuple[int, ...]:
        """Free memory of every device; without any, all memory of the host.

        Raises InvalidRequest where a host without devices has an unknown size.
        """
        if self.devices:
            return tuple(device.free_bytes for device in self.devices)
        if self.rig.host.ram_bytes is None:
            raise InvalidRequest(
                "without a card, --fit reduces the context until it fits main memory: state rig.host.ram_bytes",
                fields=("rig.host.ram_bytes", "engine.fit"),
            )
        return (self.rig.host.ram_bytes,)

    @property
    def targets_bytes(self) -> tuple[int, ...]:
        """Most that each device may use."""
        return tuple(free - self.margin_bytes for free in self.free_bytes)

    def used_bytes(self, measured: Measurement) -> Sequence[int]:
        """What is held against `free_bytes`."""
        return measured.device_bytes or (measured.host_bytes,)

    def measure(self, settings: LlamaCppSettings, context_tokens: int) -> Measurement:
        """Bytes that fit finds for `settings`: logits of a whole ubatch, no ties of operations to backends.

        Weights that the host repacks are counted as plain ones.
        Source: common_get_device_memory_data_impl, common/fit.cpp:33-155 (llama.cpp in llama-cpp-python 0.3.36).
        """
        workload = replace(self.workload, context_tokens=context_tokens)
        placed = place(self.model, self.rig, replace(settings, tool="llama-bench"), workload, fit_view=True)
        devices = [placed.devices[device.position] for device in self.devices]
        return Measurement(
            device_bytes=tuple(device.total_bytes for device in devices),
            weights_bytes=sum(device.weights_bytes for device in devices),
            host_bytes=placed.host.total_bytes,
        )


def fit_question(
    model: Model,
    rig: Rig,
    settings: LlamaCppSettings,
    workload: Workload,
    *,
    margin_bytes: int = DEFAULT_MARGIN_BYTES,
    least_context_tokens: int = LEAST_CONTEXT_TOKENS,
) -> FitQuestion:
    """The question whether and how a model fits, with the devices it would be loaded on.

    Raises Unsupported where llama.cpp has no fit: in split mode tensor, and before December 2025; else as `place` does.
    Source: common/fit.cpp:183-185 (llama.cpp in llama-cpp-python 0.3.36); pull request 16653.
    """
    if settings.split_mode == "tensor":
        raise Unsupported(
            "llama.cpp's --fit is not implemented for split mode tensor: split by layer, or leave engine.fit null",
            fields=("engine.fit", "engine.split_mode"),
        )
    rules = version_rules(settings.version, settings.date)
    if not rules.has("fit_by_default"):
        raise Unsupported(
            f"llama.cpp of {rules.as_of} has no --fit, which came in December 2025: leave engine.fit null, or name a "
            "later build or date",
            fields=("engine.fit", "engine.version", "engine.date"),
        )
    inputs = placement_inputs(model, rig, settings, workload)
    return FitQuestion(
        model=model,
        hp=read_hparams(model),
        rig=rig,
        settings=settings,
        workload=workload,
        devices=tuple(
            FitDevice(position=device.position, buffer_type=device.name, free_bytes=device.gpu.usable_bytes)
            for device in inputs.loaded.used
        ),
        margin_bytes=margin_bytes,
        least_context_tokens=least_context_tokens,
    )
