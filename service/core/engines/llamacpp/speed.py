"""Speed of a placement: reads of every device and the host, turned into decode and prefill times."""

from dataclasses import dataclass
from functools import lru_cache

from service.core.architectures.hparams import Hparams
from service.core.engines.llamacpp.question import Choice
from service.core.engines.llamacpp.reads import (
    ReadShape,
    attention_flops,
    read_kv_bytes,
    read_shape,
    read_weights_bytes,
)
from service.core.engines.llamacpp.slots import CPU
from service.core.engines.llamacpp.versions import version_rules
from service.core.engines.llamacpp.weights import NO_WEIGHTS, Weights
from service.core.links import hidden_state_bytes
from service.core.prefill import PrefillWork, prefill_s
from service.core.speed import Assumptions, Decode, DecodeWork, Processor, Step, decode, gpu_processor, host_processor
from service.core.speed_constants import (
    BACKENDS,
    OLD_BUILD_OVERHEAD_FACTOR,
    OLD_BUILDS_BEFORE,
    ROW_SYNC_PER_CARD_S,
    ROW_SYNC_S,
)
from service.core.types import Backend, Rig


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """What one card or the host holds and reads for one token of one stream, and how fast it is."""

    weights: Weights
    weights_read_bytes: int
    kv_read_bytes: int
    kernels: int
    layers: int
    processor: Processor

    @property
    def read_bytes(self) -> int:
        """All bytes read for one token."""
        return self.weights_read_bytes + self.kv_read_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """All parts of a choice; `together` where the cards work on the same layer at the same time."""

    choice: Choice
    hp: Hparams
    shape: ReadShape
    cards: tuple[_Part, ...]
    host: _Part
    together: bool
    assumptions: Assumptions

    @property
    def syncs(self) -> int:
        """Meetings of the cards in one step: after attention and after the feed-forward network of every layer."""
        if not self.together:
            return 0
        busy = sum(1 for card in self.cards if card.read_bytes)
        return 2 * self.hp.n_layer if busy > 1 else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Reads and times of a choice.

    device_reads, host_read: bytes for one token of one stream. decode: one step of all streams, None where a device
    that works has no known bandwidth; steps: its parts. prefill_s: the whole prompt of one stream, None where a rate is
    not known. parts: what all of it was computed from.
    """

    device_reads: tuple[int, ...]
    host_read: int
    decode: Decode | None
    steps: tuple[Step, ...]
    prefill_s: float | None
    parts: _Parts


def speed_of(choice: Choice, assumptions: Assumptions) -> Speed:
    """Reads and times of `choice`, without what runs beside the model: how often a draft is right is not known."""
    parts = _parts(choice, assumptions)
    step = _decode(parts)
    return Speed(
        device_reads=tuple([card.read_bytes for card in parts.cards]),
        host_read=parts.host.read_bytes,
        decode=step,
        steps=step.steps if step else (),
        prefill_s=_prefill_s(parts),
        parts=parts,
    )


def decode_on_one(speed: Speed, index: int) -> Decode | None:
    """One decode step with everything that the cards hold on card `index` alone, None without its bandwidth."""
    cards = speed.parts.cards
    everything = _Part(
        weights=sum([each.weights for each in cards], NO_WEIGHTS),
        weights_read_bytes=sum([each.weights_read_bytes for each in cards]),
        kv_read_bytes=sum([each.kv_read_bytes for each in cards]),
        kernels=sum([each.kernels for each in cards]),
        layers=sum([each.layers for each in cards]),
        processor=cards[index].processor,
    )
    parts = speed.parts
    return _decode(
        _Parts(
            choice=parts.choice,
            hp=parts.hp,
            shape=parts.shape,
            cards=(everything,),
            host=parts.host,
            together=False,
            assumptions=parts.assumptions,
        )
    )


def _parts(choice: Choice, assumptions: Assumptions) -> _Parts:
    choice = choice.alone()
    question, placement = choice.question, choice.placement
    hp, workload = question.hp, question.workload
    shape = read_shape(question.model, hp)
    kernels, caches, trunk_end = shape.kernels_before, placement.caches, hp.n_layer
    depth_tokens = workload.cached_tokens + workload.prompt_tokens + workload.output_tokens / 2
    processors, host = _processors(question.rig, assumptions)
    together = placement.split_mode in ("row", "tensor")

    def part(weights: Weights, first: int, end: int, kv_bytes: int, backend: Backend, processor: Processor) -> _Part:
        kv_read_bytes = 0
        if kv_bytes and not assumptions.ignore_kv_reads:
            kv_read_bytes = read_kv_bytes(hp, caches, first, end, backend, kv_bytes=kv_bytes, depth_tokens=depth_tokens)
        return _Part(
            weights=weights,
            weights_read_bytes=read_weights_bytes(weights, shape),
            kv_read_bytes=kv_read_bytes,
            kernels=kernels[end] - kernels[first],
            layers=min(end, trunk_end) - min(first, trunk_end),
            processor=processor,
        )

    cards = tuple(
        [
            part(card.weights, card.first_slot, card.end_slot, card.kv_bytes, card.backend, processor)
            for card, processor in zip(placement.devices, processors, strict=True)
        ]
    )
    on_host = placement.slots.range_of(CPU) if placement.ctx.offload_kqv else (0, hp.n_layer_all)
    main_memory = part(placement.host.weights, *on_host, placement.host.kv_bytes, "cpu", host)
    return _Parts(
        choice=choice, hp=hp, shape=shape, cards=cards, host=main_memory, together=together, assumptions=assumptions
    )


@lru_cache(maxsize=1024)
def _processors(rig: Rig, assumptions: Assumptions) -> tuple[tuple[Processor, ...], Processor]:
    return tuple(gpu_processor(gpu, assumptions) for gpu in rig.gpus), host_processor(rig.host, rig.gpus)


def _decode_work(part: _Part, shape: ReadShape, *, tokens: int) -> DecodeWork:
    """One step of `tokens` streams on a card or the host."""
    weights_bytes = part.weights_read_bytes
    if tokens > 1 and part.weights.expert_bytes:
        weights_bytes = read_weights_bytes(part.weights, shape, tokens=tokens)
    return DecodeWork(
        weights_bytes=weights_bytes,
        kv_bytes=tokens * part.kv_read_bytes,
        kernels=part.kernels,
        flops=2.0 * tokens * shape.elements_per_byte * part.weights_read_bytes,
    )


def _decode(parts: _Parts) -> Decode | None:
    if any(card.read_bytes and card.processor.bandwidth_bytes_per_s is None for card in parts.cards):
        return None
    streams, settings = parts.choice.question.workload.parallel, parts.choice.settings
    as_of = version_rules(settings.version, settings.date).as_of
    is_old = as_of is not None and as_of.isoformat() < OLD_BUILDS_BEFORE
    return decode(
        [(_decode_work(card, parts.shape, tokens=streams), card.processor) for card in parts.cards],
        (_decode_work(parts.host, parts.shape, tokens=streams), parts.host.processor),
        is_moe=parts.shape.n_expert > 0,
        together=parts.together,
        syncs=parts.syncs,
        sync_s=_sync_s(parts) if parts.together else 0.0,
        overhead_factor=OLD_BUILD_OVERHEAD_FACTOR if is_old else 1.0,
        assumptions=parts.assumptions,
    )


def _prefill_s(parts: _Parts) -> float | None:
    workload, n_ubatch = parts.choice.question.workload, parts.choice.placement.ctx.n_ubatch
    prompt = workload.prompt_tokens
    attention = attention_flops(parts.hp, prompt, workload.cached_tokens)
    meeting_s = _sync_s(parts) + _reduction_s(parts, min(prompt, n_ubatch)) if parts.syncs else 0.0
    return prefill_s(
        [(_prefill_work(parts, card, attention), card.processor) for card in parts.cards],
        (_prefill_work(parts, parts.host, attention), parts.host.processor),
        ubatches=-(-prompt // n_ubatch),
        rows_per_expert=min(prompt, n_ubatch) * parts.shape.used_fraction,
        pipelined=parts.choice.placement.pipeline_parallel,
        together=parts.together,
        sync_s=parts.syncs * meeting_s,
    )


def _sync_s(parts: _Parts) -> float:
    """Time of one meeting of the cards, without the bytes they exchange."""
    busy = [card for card in parts.cards if card.read_bytes]
    if parts.choice.placement.split_mode == "row":
        return ROW_SYNC_S + ROW_SYNC_PER_CARD_S * max(0, len(busy) - 2)
    return max((BACKENDS[card.processor.backend].sync_s for card in busy), default=0.0)


def _reduction_s(parts: _Parts, tokens: int) -> float:
    """Time to add up the hidden states of a ubatch over the cards: each sends its own to the host and gets the others'.

    Source: without peer-to-peer access reductions are staged through host memory, ggml/src/ggml-cuda/ggml-cuda.cu:
    1119-1248 (llama.cpp in llama-cpp-python 0.3.36).
    """
    busy = [card for card in parts.cards if card.read_bytes]
    slowest = min((card.processor.link_bytes_per_s for card in busy), default=0.0)
    return 2 * (len(busy) - 1) * hidden_state_bytes(parts.hp.n_embd, tokens) / slowest if slowest else 0.0


def _prefill_work(parts: _Parts, part: _Part, attention: float) -> PrefillWork:
    """A whole prompt on a card or the host, whose attention is `attention` operations in all layers together.

    Cards that work together share the arithmetic by their weights.
    """
    shape, n_layer = parts.shape, parts.hp.n_layer
    per_byte = 2.0 * parts.choice.question.workload.prompt_tokens * shape.elements_per_byte
    share = part.layers / n_layer if n_layer else 0.0
    if parts.together and part is not parts.host:
        share /= max(1, sum(1 for card in parts.cards if card.read_bytes))
    return PrefillWork(
        flops=per_byte * part.weights_read_bytes,
        expert_flops=per_byte * part.weights.expert_bytes * shape.used_fraction,
        attention_flops=attention * share,
        weights_bytes=part.weights.weights_bytes - part.weights.lookup_bytes,
    )
