"""What each card takes for the blocks and for the output layer, as the speed model itself says.

Source: service/core/engines/llamacpp/speed.py, asked about cards by themselves.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from service.core.architectures.hparams import read_hparams
from service.core.engines.llamacpp.question import Question
from service.core.engines.llamacpp.search.judge import Judge
from service.core.engines.llamacpp.settings import LlamaCppSettings
from service.core.speed import Assumptions
from service.core.timing.decode import Decode
from service.core.types import Gpu, Host, Model, Rig, Workload
from service.core.units import pad

_NO_TIME: Final = 1e9
"""How many times as fast the card beside one that is asked about is: what it holds takes no time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartTimes:
    """Times of all blocks and of the output layer."""

    blocks_s: float
    output_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CardTimes:
    """Times of one kind of card: a decode step, the prompt of a stream, and what a card adds that is not the first."""

    decode: PartTimes
    prefill: PartTimes
    further_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """Prefill over several cards as `sum_share` times the sum of the stages and `longest_share` times the longest."""

    sum_share: float = 1.0
    longest_share: float = 0.0


def card_times(
    judge: Judge, full: LlamaCppSettings, order: Sequence[int]
) -> tuple[Sequence[CardTimes], Overlap] | None:  # fmt: skip
    """Times of the cards of `order`, and how their prefill overlaps; None where a bandwidth is not known.

    full: all layers on the cards, without a split. Each kind of card is asked about once, and how prefill overlaps,
    too; the answers are kept, because they do not depend on the rest of the rig nor on a context beyond what is read.
    """
    question = judge.bare
    gpus = [question.rig.gpus[position] for position in order]
    plain = replace(full, split_mode="layer", devices=None, main_gpu=0, override_tensor=())
    probe = _Probe(
        model=question.model,
        host=question.rig.host,
        full=plain,
        workload=replace(question.workload, context_tokens=_tokens_read(question.workload)),
        assumptions=judge.assumptions,
    )
    found = {gpu: _times(probe, gpu) for gpu in dict.fromkeys(gpus)}
    times = [found[gpu] for gpu in gpus]
    known = [each for each in times if each is not None]
    return (known, _overlap(probe, gpus[0])) if len(known) == len(times) else None


def _tokens_read(workload: Workload) -> int:
    """A context that holds all that a request reads, in every stream."""
    return workload.parallel * pad(workload.cached_tokens + workload.prompt_tokens + workload.output_tokens, 256)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Probe:
    """Questions to the speed model about cards by themselves."""

    model: Model
    host: Host
    full: LlamaCppSettings
    workload: Workload
    assumptions: Assumptions

    def ask(
        self, *gpus: Gpu, shares: tuple[float, ...] | None = None, pipelined: bool = False
    ) -> tuple[Decode | None, float]:
        """A decode step and the prefill of a stream on these cards by layer; 0 where the prefill is not known."""
        question = Question.of(self.model, Rig(gpus=gpus, host=self.host), self.workload)
        judge = Judge(question=question, assumptions=self.assumptions)
        speed = judge.speed(
            replace(self.full, tensor_split=shares), self.workload.context_tokens or 0, pipelined=pipelined
        )  # fmt: skip
        return speed.decode, speed.prefill_s or 0.0


@lru_cache(maxsize=4096)
def _times(probe: _Probe, gpu: Gpu) -> CardTimes | None:
    """Times of a card: with everything on it, and with the output layer on a card that takes no time."""
    blocks = read_hparams(probe.model).n_layer_all
    whole_s, whole_prefill_s = _equal_cards(probe, gpu, 1)
    most, prefill_s = probe.ask(gpu, _timeless(gpu), shares=(float(blocks), 1.0))
    both_s, _ = _equal_cards(probe, gpu, 2)
    if whole_s is None or most is None or both_s is None:
        return None
    decode_s = most.device_s[0]
    return CardTimes(
        decode=PartTimes(blocks_s=decode_s, output_s=max(0.0, whole_s - decode_s)),
        prefill=PartTimes(blocks_s=prefill_s, output_s=max(0.0, whole_prefill_s - prefill_s)),
        further_s=max(0.0, both_s - whole_s),
    )


@lru_cache(maxsize=4096)
def _equal_cards(probe: _Probe, gpu: Gpu, count: int) -> tuple[float | None, float]:
    """A decode step and the prefill of a stream on so many cards of a kind, without a pipeline."""
    decode, prefill_s = probe.ask(*[gpu] * count)
    return None if decode is None else decode.step_s, prefill_s


@lru_cache(maxsize=4096)
def _overlap(probe: _Probe, gpu: Gpu) -> Overlap:
    """How the prefill of two equal cards overlaps, which take half each of what one takes."""
    _, whole_s = _equal_cards(probe, gpu, 1)
    _, summed_s = _equal_cards(probe, gpu, 2)
    _, pipelined_s = probe.ask(gpu, gpu, pipelined=True)
    if not whole_s:
        return Overlap()
    share = min(1.0, max(0.0, 2 * (summed_s - pipelined_s) / whole_s))
    return Overlap(sum_share=1 - share, longest_share=share)


def _timeless(gpu: Gpu) -> Gpu:
    def faster(rate: float | None) -> float | None:
        return None if rate is None else rate * _NO_TIME

    return replace(
        gpu,
        slug=f"{gpu.slug} without time",
        bandwidth_bytes_per_s=faster(gpu.bandwidth_bytes_per_s),
        fp32_flops=faster(gpu.fp32_flops),
        fp16_tensor_flops=faster(gpu.fp16_tensor_flops),
        tdp_w=None,
    )
