"""Divisions of layers as settings, and the fastest one that fits once its compute buffers are known."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final

from service.core.engines.llamacpp.question import Choice, Question
from service.core.engines.llamacpp.refusals import MAX_SHARES
from service.core.engines.llamacpp.search.judge import SAME_FRACTION
from service.core.engines.llamacpp.search.layer_split import Range
from service.core.engines.llamacpp.search.stages import Divider
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.engines.llamacpp.slots import split_slots
from service.core.engines.llamacpp.versions import version_rules

ROUNDS: Final = 8
"""Divisions that are placed at most; each one that does not fit shows what its cards need."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """What divisions are written into: settings without a split, for cards in llama.cpp's order."""

    question: Question
    settings: LlamaCppSettings
    order: Sequence[int]

    def settings_of(self, ranges: Sequence[Range]) -> LlamaCppSettings:
        """The simplest settings under which every card of `order` gets its range, the host what comes before."""
        used = [(card, last - first) for card, (first, last) in zip(self.order, ranges, strict=True) if last > first]
        n_slots = self.question.hp.n_layer_all + 1
        offloaded = sum(count for _, count in used)
        layers = self.settings.n_gpu_layers if offloaded == n_slots else offloaded
        found = replace(self.settings, n_gpu_layers=layers)
        if not used:
            return found
        if len(used) == 1 and self.settings.split_mode is None:
            return replace(found, split_mode="none", main_gpu=self.order.index(used[0][0]))
        if len(used) < len(self.order) and not self._takes_a_list:
            counts = [float(last - first) for first, last in ranges]
            return replace(found, tensor_split=tuple(counts))
        if len(used) < len(self.order):
            found = replace(found, devices=tuple(card for card, _ in used))
        if self._is_by_free_memory([card for card, _ in used], [count for _, count in used]):
            return found
        return replace(found, tensor_split=tuple(float(count) for _, count in used))

    @property
    def _takes_a_list(self) -> bool:
        return version_rules(self.settings.version, self.settings.date).has("device_list")

    def _is_by_free_memory(self, cards: Sequence[int], counts: Sequence[int]) -> bool:
        """Whether llama.cpp divides the same way by itself."""
        gpus, n_layer_all = self.question.rig.gpus, self.question.hp.n_layer_all
        slots = split_slots(n_layer_all, sum(counts), [float(gpus[card].usable_bytes) for card in cards])
        ranges = (slots.range_of(device) for device in range(len(cards)))
        return [end - first for first, end in ranges] == list(counts)

    @property
    def can_be_stated(self) -> bool:
        """Whether llama.cpp takes so many shares."""
        return len(self.order) <= MAX_SHARES


def fastest_fitting(
    layers: Layers, divider: Divider, context_tokens: int, *, pipelined: bool, below_s: float = inf
) -> Choice | None:
    """The fastest division that fits, placed; None where there is none, or none that is noticeably below `below_s`.

    Until it is placed, a part of a division is taken to need no more compute buffer than is known, so that what is
    found is never too slow; each placement that does not fit adds what it shows.
    """
    question, judge, seen = layers.question, divider.judge, set[LlamaCppSettings]()
    for _ in range(ROUNDS):
        division = divider.divide(pipelined=pipelined)
        if division is None:
            return None
        settings = layers.settings_of(division.ranges)
        if settings in seen:
            return None
        seen.add(settings)
        seconds = judge.request_s(settings, context_tokens, pipelined=pipelined)
        if seconds is None or seconds > below_s * (1 - SAME_FRACTION):
            return None
        choice = question.placed(settings, context_tokens, may_pipeline=pipelined)
        if choice.fits:
            return choice if pipelined else question.place(choice.settings, context_tokens)
        if not divider.learned.observe(choice, divider.kinds):
            return None
    return None
