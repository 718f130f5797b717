"""Layouts with what they need, and the search for the fullest one that still fits a device."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from service.core.engines.llamacpp.fit.layers import Layout, layout_bytes
from service.core.engines.llamacpp.fit.question import UINT32_MAX, FitQuestion
from service.core.problems import Unsupported


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A layout and the bytes it needs on every device."""

    layout: Layout
    device_bytes: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trials:
    """Trials of one question at one context."""

    question: FitQuestion
    context_tokens: int

    def of(self, layout: Layout) -> Trial:
        """Measure a layout."""
        return Trial(layout=layout, device_bytes=layout_bytes(self.question, layout, self.context_tokens))

    def fullest(
        self,
        device: int,
        low: Trial,
        high: Trial,
        more: Callable[[Layout, int], Layout],
        count: Callable[[Layout], int],
    ) -> Trial:
        """The last layout between two that is within the device's target, by the method of false position.

        low: what is kept where nothing more is within the target. more: a layout with so many more layers; count: how
        many it has.
        Source: common/fit.cpp:687-725 and 754-800 (llama.cpp in llama-cpp-python 0.3.36).
        """
        target = self.question.targets_bytes[device]
        delta = count(high.layout) - count(low.layout)
        while delta > 1:
            step = _step(delta, target, low.device_bytes[device], high.device_bytes[device])
            trial = self.of(more(low.layout, step))
            if trial.device_bytes[device] <= target:
                low = trial
            else:
                high = trial
            delta = count(high.layout) - count(low.layout)
        return low


def _step(delta: int, target_bytes: int, low_bytes: int, high_bytes: int) -> int:
    """Layers to add: where the straight line reaches the target, in 64 bit rounded towards zero, then cut to 32 bit.

    Below the need of the low end it is negative and turns into the largest number.
    """
    if high_bytes == low_bytes:
        raise Unsupported(
            "llama.cpp's --fit stops here with a division by zero: a card's free memory is below what --fit leaves "
            "free, and layers without weights would go there. Leave engine.fit null",
            fields=("engine.fit",),
        )
    product = delta * (target_bytes - low_bytes)
    step = abs(product) // abs(high_bytes - low_bytes)
    if (product < 0) != (high_bytes < low_bytes):
        step = -step
    return min(max(step & UINT32_MAX, 1), delta - 1)
