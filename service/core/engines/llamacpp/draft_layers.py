"""What a model's own draft (MTP, NextN) layers make cards and host do.

Source: the draft graphs of src/models/*.cpp and common_speculative_impl_draft_mtp, common/speculative.cpp:1355-1730
(llama.cpp in llama-cpp-python 0.3.36).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.buckets import buckets
from service.core.engines.llamacpp.placed import DevicePlacement, Placement
from service.core.engines.llamacpp.reads import read_kv_bytes
from service.core.engines.llamacpp.slots import CPU
from service.core.engines.llamacpp.work import depth_tokens
from service.core.timing.work import Part, Work
from service.core.types import Backend, Model, Tensor, Workload

_OWN_HEAD = "nextn.shared_head_head"
_CACHE_FLOPS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftLayers:
    """Draft layers of a model where they lie.

    trunk: the work of the model on the same cards. placement: of the context that drafts. elsewhere: weights that do
    not lie with their slot, by name.
    """

    model: Model
    hp: Hparams
    trunk: Work
    placement: Placement
    elsewhere: Mapping[str, int]
    workload: Workload

    def work(self, layers: int, *, with_head: bool) -> Work:
        """One token through the first `layers` of them; with_head: and through the output matrix.

        Cards that share every layer have an equal part of each.
        """
        matrices = list(self._matrices(layers, with_head=with_head))
        placed, joint = self.placement, self.trunk.arrangement != "serial"
        cards = []
        for index, (part, card) in enumerate(zip(self.trunk.cards, placed.devices, strict=True)):
            here = [each for each in matrices if (card.used and each.at != CPU if joint else each.at == index)]
            cut = len(placed.device_order) if joint else 1
            cards.append(self._part(part, here, cut, layers, _kv_bytes(card), card.backend))
        on_host = [each for each in matrices if each.at == CPU]
        host = self._part(self.trunk.host, on_host, 1, layers, placed.host.kv_bytes, "cpu")
        exchange = replace(self.trunk.exchange, reductions=2 * layers) if joint else self.trunk.exchange
        return replace(self.trunk, cards=tuple(cards), host=host, exchange=exchange, copies=1)

    def _matrices(self, layers: int, *, with_head: bool) -> Iterator["_Matrix"]:
        """Matrices that a token is multiplied with: of the layers, and the head, which may be their own."""
        first, output = self.hp.n_layer, self.hp.n_layer_all
        sorted_tensors = buckets(self.model, self.hp, load_mtp=True)
        own_head = any(each.kind.base == _OWN_HEAD for each in sorted_tensors.loaded)
        slots = {*range(first, first + layers)} | ({output} if with_head and not own_head else set())
        for loaded in sorted_tensors.loaded:
            if loaded.slot not in slots or loaded.op not in ("mul_mat", "mul_mat_id"):
                continue
            if loaded.kind.base != _OWN_HEAD or with_head:
                yield _Matrix(loaded.tensor, self._place(loaded.tensor, loaded.slot), loaded.kind.is_routed_expert)
        for shared in sorted_tensors.shared:
            if output in slots and shared.op == "mul_mat" and output in shared.slots:
                yield _Matrix(shared.tensor, self._place(shared.tensor, output), routed=False)

    def _place(self, tensor: Tensor, slot: int) -> int:
        return self.elsewhere.get(tensor.name, self.placement.slots.device_of(slot))

    def _part(
        self, part: Part, matrices: Sequence["_Matrix"], cut: int, layers: int, kv_bytes: int, backend: Backend
    ) -> Part:  # fmt: skip
        """What one card or the host does, with a part of `cut` of every matrix."""
        hp, depth = self.hp, depth_tokens(self.workload)
        first, end = hp.n_layer, hp.n_layer_all
        read = 0
        if kv_bytes:
            caches = self.placement.caches
            read = read_kv_bytes(hp, caches, first, end, backend, kv_bytes=kv_bytes, depth_tokens=depth)
        flops = sum([_CACHE_FLOPS * hp.n_head[il] * _head_values(hp, il) for il in range(first, first + layers)])
        flops = flops / cut if read else 0.0
        prompt_depth = self.workload.cached_tokens + self.workload.prompt_tokens / 2
        return Part(
            gpu=part.gpu,
            dense_bytes=sum([each.tensor.size_bytes for each in matrices if not each.routed]) // cut,
            expert_bytes=sum([each.tensor.size_bytes for each in matrices if each.routed]) // cut,
            cache_bytes=read * layers // (end - first),
            kernels=sum([1 for each in matrices if not each.routed]),
            expert_kernels=sum([1 for each in matrices if each.routed]),
            attention_flops=flops * depth,
            prompt_attention_flops=flops * prompt_depth * self.workload.prompt_tokens,
        )


@dataclass(frozen=True, slots=True)
class _Matrix:
    """A matrix, the card it lies on, and whether it is a stack of routed experts."""

    tensor: Tensor
    at: int
    routed: bool


def _kv_bytes(card: DevicePlacement) -> int:
    return card.kv_bytes if card.used else 0


def _head_values(hp: Hparams, il: int) -> int:
    return hp.n_embd_head_k(il) + hp.n_embd_head_v(il)
