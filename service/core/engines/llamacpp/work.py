"""What a placement makes cards and host do for a token and for a prompt."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Final, NamedTuple

from service.core.engines.llamacpp.loaded import LoadedModel
from service.core.engines.llamacpp.placement import Placement
from service.core.engines.llamacpp.question import Choice
from service.core.engines.llamacpp.reads import ReadShape, read_fraction, read_kv_bytes, read_shape
from service.core.engines.llamacpp.slots import CPU
from service.core.engines.llamacpp.weights import Weights
from service.core.links import hidden_state_bytes
from service.core.links.topology import slowest_path
from service.core.timing.work import Arrangement, Exchange, Part, Work
from service.core.types import Gpu, Workload

_REDUCED_CARDS: Final = 2
_REDUCED_FROM: Final = (7, 0)
_REDUCED_SINCE: Final = date(2026, 5, 15)


class _Asked(NamedTuple):
    """What the work of a model in its slots depends on besides.

    cache_bytes: that every card and, last, the host read for one token of one stream. prompt_tokens, cached_tokens,
    output_tokens, streams: of the workload. ubatch_tokens, flash_attention: of the context. copies: of graph inputs.
    """

    cache_bytes: tuple[int, ...]
    streams: int
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    ubatch_tokens: int
    flash_attention: bool
    copies: int

    @property
    def depth_tokens(self) -> float:
        """Before the middle token of the answer."""
        return self.cached_tokens + self.prompt_tokens + self.output_tokens / 2

    @property
    def prompt_depth_tokens(self) -> float:
        """Before the middle token of the prompt."""
        return self.cached_tokens + self.prompt_tokens / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shares:
    """What the parts of one placement have in common; cut: cards that every layer's attention is cut over."""

    loaded: LoadedModel
    shape: ReadShape
    asked: _Asked
    arrangement: Arrangement
    cut: int

    def part(self, gpu: Gpu | None, weights: Weights, slots: tuple[int, int], cache_bytes: int) -> Part:
        """What one card or the host does with its slots."""
        (first, end), shape, hp, asked = slots, self.shape, self.loaded.hp, self.asked
        launched = slots
        if self.arrangement == "row" and gpu is not None and weights.weights_bytes:
            launched = (0, hp.n_layer_all + 1)
        prompt_flops = shape.attention_flops(first, end, asked.prompt_depth_tokens, hp.n_swa) / self.cut
        return Part(
            gpu=gpu,
            dense_bytes=weights.weights_bytes - weights.lookup_bytes - weights.expert_bytes,
            expert_bytes=weights.expert_bytes,
            cache_bytes=cache_bytes,
            kernels=_between(shape.kernels_before, launched),
            expert_kernels=_between(shape.expert_kernels_before, launched),
            attention_flops=shape.attention_flops(first, end, asked.depth_tokens, hp.n_swa) / self.cut,
            prompt_attention_flops=asked.prompt_tokens * prompt_flops,
        )


def work_of(choice: Choice, *, ignore_cache: bool = False) -> Work:
    """What a choice makes cards and host do, without what runs beside it; ignore_cache: as if nothing were cached."""
    choice = choice.alone()
    return model_work(choice.placement, choice.question.workload, ignore_cache=ignore_cache)


def model_work(placement: Placement, workload: Workload, *, ignore_cache: bool = False) -> Work:
    """What a placed model makes cards and host do.

    Placements that differ in nothing but the length of a context beyond what a token reads give the same object, with
    what is remembered of it.
    """
    cache_bytes = (0,) * (len(placement.devices) + 1) if ignore_cache else _cache_bytes(placement, workload)
    return _work(
        placement.loaded,
        _Asked(
            cache_bytes,
            workload.parallel,
            workload.prompt_tokens,
            workload.cached_tokens,
            workload.output_tokens,
            placement.ctx.n_ubatch,
            placement.ctx.flash_attn,
            placement.sched_copies,
        ),
    )


def _cache_bytes(placement: Placement, workload: Workload) -> tuple[int, ...]:
    """Bytes of cache that every card and, last, the host read for one token of one stream."""
    hp, index, depth, host = placement.loaded.hp, placement.caches, depth_tokens(workload), placement.host
    if len(index.groups) == 1:
        fraction = read_fraction(hp, index.groups[0], depth)
        held_bytes = [*[card.kv_bytes for card in placement.devices], host.kv_bytes]
        return tuple([round(kv_bytes * fraction) for kv_bytes in held_bytes])
    read = [
        read_kv_bytes(
            hp, index, card.first_slot, card.end_slot, card.backend, kv_bytes=card.kv_bytes, depth_tokens=depth
        )
        if card.kv_bytes
        else 0
        for card in placement.devices
    ]
    if host.kv_bytes:
        first, end = _host_slots(placement.loaded)
        read.append(read_kv_bytes(hp, index, first, end, "cpu", kv_bytes=host.kv_bytes, depth_tokens=depth))
    else:
        read.append(0)
    return tuple(read)


def _host_slots(loaded: LoadedModel) -> tuple[int, int]:
    """Slots whose attention the host computes: its own, or all where it keeps the whole cache."""
    return loaded.slots.range_of(CPU) if loaded.settings.kv_offload else (0, loaded.hp.n_layer_all)


# a model's work is some 3 KiB
@lru_cache(maxsize=1024)
def _work(loaded: LoadedModel, asked: _Asked) -> Work:
    """The work of a model in its slots.

    Split by rows, every card computes its rows of every matrix; cut like tensors, its part of every layer.
    Source: ggml/src/ggml-cuda/ggml-cuda.cu (split buffers), ggml/src/ggml-backend-meta.cpp
    (llama.cpp in llama-cpp-python 0.3.36).
    """
    shape, built = read_shape(loaded.model, loaded.hp), loaded.rules.as_of
    arrangement = _arrangement(loaded)
    cut = max(1, len(loaded.busy)) if arrangement == "tensor" else 1
    shares = _Shares(loaded=loaded, shape=shape, asked=asked, arrangement=arrangement, cut=cut)
    *cached, host_cached = asked.cache_bytes
    return Work(
        cards=tuple(
            [
                shares.part(gpu, held.weights, (held.first_slot, held.end_slot), cache_bytes)
                for gpu, held, cache_bytes in zip(loaded.rig.gpus, loaded.held, cached, strict=True)
            ]
        ),
        host=shares.part(None, loaded.weights.host, _host_slots(loaded), host_cached),
        weights=shape.weights,
        exchange=Exchange() if arrangement == "serial" else _exchange(loaded, shape, built),
        arrangement=arrangement,
        streams=asked.streams,
        prompt_tokens=asked.prompt_tokens,
        ubatch_tokens=asked.ubatch_tokens,
        copies=asked.copies,
        flash_attention=asked.flash_attention,
        built=built,
    )


def _arrangement(loaded: LoadedModel) -> Arrangement:
    """How the cards of a model work together."""
    if loaded.split_mode not in ("row", "tensor") or len(loaded.order) < 2:
        return "serial"
    return "row" if loaded.split_mode == "row" else "tensor"


def depth_tokens(workload: Workload) -> float:
    """Tokens before the middle one of the answer."""
    return workload.cached_tokens + workload.prompt_tokens + workload.output_tokens / 2


def _exchange(loaded: LoadedModel, shape: ReadShape, built: date | None) -> Exchange:
    """Cards that share every layer meet after attention and after the feed-forward network, over their slowest link."""
    hp, rig, busy = loaded.hp, loaded.rig, loaded.busy
    path = slowest_path(rig, busy)
    peers = path is not None and path.kind in ("nvlink", "pcie-p2p")
    return Exchange(
        reductions=2 * hp.n_layer,
        hidden_state_bytes=hidden_state_bytes(hp.n_embd),
        row_bytes=shape.row_bytes,
        in_one_kernel=_in_one_kernel([rig.gpus[index] for index in busy], built),
        peer_bytes_per_s=path.bandwidth_bytes_per_s if path and peers else None,
    )


def _in_one_kernel(cards: Sequence[Gpu], built: date | None) -> bool:
    """Whether the engine's own all-reduce serves these cards: two of CUDA, from Volta on, be they peers or not.

    Source: ggml_cuda_ar_pipeline_init, ggml/src/ggml-cuda/allreduce.cu (llama.cpp in llama-cpp-python 0.3.36); pull
    request 22299.
    """
    known = len(cards) == _REDUCED_CARDS and (built is None or built >= _REDUCED_SINCE)
    return known and all(
        card.backend == "cuda" and card.compute_capability is not None and card.compute_capability >= _REDUCED_FROM
        for card in cards
    )


def _between(before: tuple[int, ...], slots: tuple[int, int]) -> int:
    first, end = slots
    return before[end] - before[first]
