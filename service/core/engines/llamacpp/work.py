"""What a placement makes cards and host do for a token and for a prompt."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

from service.core.architectures.hparams import Hparams, read_hparams
from service.core.engines.llamacpp.placement import Placement
from service.core.engines.llamacpp.question import Choice
from service.core.engines.llamacpp.reads import ReadShape, read_kv_bytes, read_shape
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.engines.llamacpp.slots import CPU
from service.core.engines.llamacpp.versions import version_rules
from service.core.engines.llamacpp.weights import Weights
from service.core.links import hidden_state_bytes
from service.core.links.topology import slowest_path
from service.core.timing.work import Arrangement, Exchange, Part, Work
from service.core.types import Backend, Gpu, Model, Rig, Workload

_REDUCED_CARDS: Final = 2
_REDUCED_FROM: Final = (7, 0)
_REDUCED_SINCE: Final = date(2026, 5, 15)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What the parts of one placement have in common.

    depth_tokens: before the middle token of the answer; prompt_depth_tokens: before that of the prompt. sharing: cards
    that every layer's attention is cut over.
    """

    hp: Hparams
    shape: ReadShape
    placement: Placement
    arrangement: Arrangement
    prompt_tokens: int
    depth_tokens: float
    prompt_depth_tokens: float
    sharing: int
    ignore_cache: bool

    def part(self, gpu: Gpu | None, weights: Weights, slots: tuple[int, int], kv_bytes: int, backend: Backend) -> Part:
        """What one card or the host does with its slots."""
        (first, end), shape, window = slots, self.shape, self.hp.n_swa
        cache_bytes = 0
        if kv_bytes and not self.ignore_cache:
            cache_bytes = read_kv_bytes(
                self.hp, self.placement.caches, first, end, backend, kv_bytes=kv_bytes, depth_tokens=self.depth_tokens
            )
        launched = slots
        if self.arrangement == "row" and gpu is not None and weights.weights_bytes:
            launched = (0, self.hp.n_layer_all + 1)
        prompt_flops = shape.attention_flops(first, end, self.prompt_depth_tokens, window) / self.sharing
        return Part(
            gpu=gpu,
            dense_bytes=weights.weights_bytes - weights.lookup_bytes - weights.expert_bytes,
            expert_bytes=weights.expert_bytes,
            cache_bytes=cache_bytes,
            kernels=_between(shape.kernels_before, launched),
            expert_kernels=_between(shape.expert_kernels_before, launched),
            attention_flops=shape.attention_flops(first, end, self.depth_tokens, window) / self.sharing,
            prompt_attention_flops=self.prompt_tokens * prompt_flops,
        )


def work_of(choice: Choice, *, ignore_cache: bool = False) -> Work:
    """What a choice makes cards and host do, without what runs beside it; ignore_cache: as if nothing were cached."""
    choice = choice.alone()
    question = choice.question
    return model_work(
        question.model, question.rig, question.workload, choice.placement, choice.settings, ignore_cache=ignore_cache
    )


def model_work(
    model: Model,
    rig: Rig,
    workload: Workload,
    placement: Placement,
    settings: LlamaCppSettings,
    *,
    ignore_cache: bool = False,
) -> Work:
    """What a placed model makes cards and host do; settings: those that say of when the build is.

    Split by rows, every card computes its rows of every matrix; cut like tensors, its part of every layer.
    Source: ggml/src/ggml-cuda/ggml-cuda.cu (split buffers), ggml/src/ggml-backend-meta.cpp
    (llama.cpp in llama-cpp-python 0.3.36).
    """
    hp, host = read_hparams(model), placement.host
    built = version_rules(settings.version, settings.date).as_of
    asked = _asked(hp, read_shape(model, hp), placement, workload, ignore_cache=ignore_cache)
    on_host = placement.slots.range_of(CPU) if placement.ctx.offload_kqv else (0, hp.n_layer_all)
    return Work(
        cards=tuple(
            [
                asked.part(gpu, card.weights, (card.first_slot, card.end_slot), card.kv_bytes, card.backend)
                for gpu, card in zip(rig.gpus, placement.devices, strict=True)
            ]
        ),
        host=asked.part(None, host.weights, on_host, host.kv_bytes, "cpu"),
        weights=asked.shape.weights,
        exchange=Exchange() if asked.arrangement == "serial" else _exchange(asked, rig, built),
        arrangement=asked.arrangement,
        streams=workload.parallel,
        prompt_tokens=workload.prompt_tokens,
        ubatch_tokens=placement.ctx.n_ubatch,
        copies=placement.sched_copies,
        flash_attention=placement.ctx.flash_attn,
        built=built,
    )


def arrangement_of(placement: Placement) -> Arrangement:
    """How the cards of a placement work together."""
    if placement.split_mode not in ("row", "tensor") or len(placement.device_order) < 2:
        return "serial"
    return "row" if placement.split_mode == "row" else "tensor"


def depth_tokens(workload: Workload) -> float:
    """Tokens before the middle one of the answer."""
    return workload.cached_tokens + workload.prompt_tokens + workload.output_tokens / 2


def _asked(
    hp: Hparams, shape: ReadShape, placement: Placement, workload: Workload, *, ignore_cache: bool
) -> _Asked:  # fmt: skip
    arrangement = arrangement_of(placement)
    busy = sum([1 for card in placement.devices if card.weights_bytes])
    return _Asked(
        hp=hp,
        shape=shape,
        placement=placement,
        arrangement=arrangement,
        prompt_tokens=workload.prompt_tokens,
        depth_tokens=depth_tokens(workload),
        prompt_depth_tokens=workload.cached_tokens + workload.prompt_tokens / 2,
        sharing=max(1, busy) if arrangement == "tensor" else 1,
        ignore_cache=ignore_cache,
    )


def _exchange(asked: _Asked, rig: Rig, built: date | None) -> Exchange:
    """Cards that share every layer meet after attention and after the feed-forward network, over their slowest link."""
    hp, shape = asked.hp, asked.shape
    busy = tuple([index for index, card in enumerate(asked.placement.devices) if card.weights_bytes])
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
