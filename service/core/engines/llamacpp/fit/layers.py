"""Layers per device as the fit counts them, and the arguments they stand for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from service.core.engines.llamacpp.buffer_types import HOST_BUFFER_TYPE
from service.core.engines.llamacpp.fit.question import UINT32_MAX, FitQuestion
from service.core.engines.llamacpp.settings import LlamaCppSettings, OverrideTensor
from service.core.engines.llamacpp.slots import CPU

Fraction = Literal["attention", "up", "gate", "all_but_experts"]
"""Part of a layer that stays on its device: attention alone, with the up projection, with the gate as well, ..."""

OVERFLOW_PATTERNS: Final = {
    "attention": r"blk\.{}\.ffn_(gate|up|gate_up|down).*",
    "up": r"blk\.{}\.ffn_(gate|gate_up|down).*",
    "gate": r"blk\.{}\.ffn_down.*",
    "all_but_experts": r"blk\.{}\.ffn_(up|down|gate_up|gate)_(ch|)exps",
}
"""What leaves the device, by what stays; `{}` is the block. Source: get_overflow_pattern, common/fit.cpp:491-529."""

ALL_EXPERTS_PATTERN: Final = r"blk\.\d+\.ffn_(up|down|gate_up|gate)_(ch|)exps"
"""Experts of every block. Source: common/fit.cpp:621."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceLayers:
    """Slots of one device, the last n_part of which are partial; counts are 32 bit wide and wrap, as llama.cpp's do.

    stays: what stays of the first partial layer; of the others, everything but experts.
    """

    n_layer: int = 0
    n_part: int = 0
    stays: Fraction = "all_but_experts"

    @property
    def n_full(self) -> int:
        """Layers that are on the device in full."""
        return (self.n_layer - self.n_part) & UINT32_MAX

    def plus(self, n_layer: int, n_part: int) -> "DeviceLayers":
        """The same with so many more, or less."""
        return replace(self, n_layer=(self.n_layer + n_layer) & UINT32_MAX, n_part=(self.n_part + n_part) & UINT32_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Layers of every device, and where the first partial layer of each goes over to: a device or the host (CPU).

    dense_start: the first of the last devices, those whose layers have no experts yet; used by step 4 alone.
    """

    devices: tuple[DeviceLayers, ...]
    overflow_to: tuple[int, ...]
    dense_start: int = 0

    def with_device(self, index: int, layers: DeviceLayers) -> "Layout":
        """The same with other layers on one device."""
        return replace(self, devices=(*self.devices[:index], layers, *self.devices[index + 1 :]))


def empty_layout(n_devices: int) -> Layout:
    """No layer on any device."""
    return Layout(devices=(DeviceLayers(),) * n_devices, overflow_to=(CPU,) * n_devices)


def settings_of(question: FitQuestion, layout: Layout) -> LlamaCppSettings:
    """Layers on the devices, shares and overrides of a layout; shares only for several devices.

    Source: set_ngl_tensor_split_tbo, common/fit.cpp:546-586 (llama.cpp in llama-cpp-python 0.3.36).
    """
    counts = [layers.n_layer for layers in layout.devices]
    return replace(
        question.settings,
        n_gpu_layers=sum(counts) & UINT32_MAX,
        tensor_split=tuple(map(float, counts)) if len(counts) > 1 else question.settings.tensor_split,
        override_tensor=tuple(_overrides(question, layout)),
    )


def _overrides(question: FitQuestion, layout: Layout) -> Iterator[OverrideTensor]:
    """One override per partial layer; on each device full layers come first.

    Blocks are counted from the end by what fit counts as layers, whatever slots the loader has.
    """
    block = question.n_layer + 1 - (sum(layers.n_layer for layers in layout.devices) & UINT32_MAX)
    for layers, overflow_to in zip(layout.devices, layout.overflow_to, strict=True):
        first = (block + layers.n_full) & UINT32_MAX
        block = (first + layers.n_part) & UINT32_MAX
        for il in range(first, block):
            stays, target = (layers.stays, overflow_to) if il == first else ("all_but_experts", CPU)
            yield OverrideTensor(
                pattern=OVERFLOW_PATTERNS[stays].format(il), buffer_type=_buffer_type(question, target)
            )


def _buffer_type(question: FitQuestion, target: int) -> str:
    return HOST_BUFFER_TYPE if target == CPU else question.devices[target].buffer_type


def layout_bytes(question: FitQuestion, layout: Layout, context_tokens: int) -> Sequence[int]:
    """Need of every device with the layers of a layout."""
    return question.measure(settings_of(question, layout), context_tokens).device_bytes
