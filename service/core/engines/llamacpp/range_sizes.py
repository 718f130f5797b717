"""Bytes of any range of slots on any card, from sums that are made once."""

from collections.abc import Sequence
from dataclasses import dataclass

from service.core.engines.llamacpp.balanced_split import RangeBytes
from service.core.engines.llamacpp.kv_cache import KvIndex
from service.core.engines.llamacpp.overrides import resolve_overrides
from service.core.engines.llamacpp.question import Choice, Question
from service.core.engines.llamacpp.slots import CPU
from service.core.engines.llamacpp.weights import SlotSums, slot_sums, weight_layout
from service.core.types import Backend


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeSizes:
    """Sums of one model under one set of overrides and one context; cards by their position in the rig.

    output_bytes: the output layer's copy of tied embeddings. span: first and end slot of what is not on the host.
    """

    backends: tuple[Backend, ...]
    sums: tuple[SlotSums, ...]
    output_bytes: int
    caches: KvIndex
    span: tuple[int, int]

    def range_bytes(self, card: int, first: int, end: int) -> int:
        """Weights and caches of slots first..end-1 on a card."""
        if first == end:
            return 0
        held = self.sums[card].held
        weights_bytes = held[end].weights_bytes - held[first].weights_bytes
        if end == self.span[1]:
            weights_bytes += self.output_bytes
        layers_end = min(end, self.span[1] - 1)
        return weights_bytes + self.caches.bytes_between(min(first, layers_end), layers_end, self.backends[card])

    def by_device(self, order: Sequence[int]) -> RangeBytes:
        """`range_bytes` of cards by their place in `order`."""
        return lambda device, first, end: self.range_bytes(order[device], first, end)

    def taken_bytes(self, choice: Choice, card: int) -> int:
        """What a card needs besides its range of slots: buffers, overrides that name it, the backend's own."""
        first, end = choice.placement.slots.range_of(card)
        return choice.needs[card].total_bytes - self.range_bytes(card, first, end)


def range_sizes(question: Question, choice: Choice) -> RangeSizes:
    """The sums that `choice` was placed with."""
    backends = tuple(gpu.backend for gpu in question.rig.gpus)
    overrides = resolve_overrides(choice.settings.override_tensor, backends)
    layout = weight_layout(
        question.model,
        question.hp,
        overrides,
        choice.settings.n_cpu_moe or 0,
        load_mtp=question.companions.load_mtp,
    )
    on_host = (run.end for run in choice.placement.slots.runs if run.device == CPU)
    return RangeSizes(
        backends=backends,
        sums=tuple(slot_sums(layout, backend) for backend in backends),
        output_bytes=sum(shared.tensor.size_bytes for shared in layout.shared if shared.op == "mul_mat"),
        caches=choice.placement.caches if choice.placement.ctx.offload_kqv else KvIndex(groups=()),
        span=(max(on_host, default=0), question.hp.n_layer_all + 1),
    )
