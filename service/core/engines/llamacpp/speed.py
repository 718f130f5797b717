"""Speed of a placement: what every device and the host do, turned into decode and prefill times."""

from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Literal

from service.core.engines.llamacpp.question import Choice
from service.core.engines.llamacpp.work import work_of
from service.core.speed import Assumptions, Step
from service.core.timing.constants import CALIBRATION, Calibration
from service.core.timing.decode import Decode, decode
from service.core.timing.prefill import prefill_s
from service.core.timing.processor import Processors, processors
from service.core.timing.ranges import Quantity, Width, width
from service.core.timing.work import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Reads and times of a choice.

    device_reads, host_read: bytes for one token of one stream. decode: one step of all streams, None where a device
    that works has no known bandwidth; steps: its parts. prefill_s: the whole prompt of one stream, None where a rate is
    not known. work, processors, assumptions: what all of it was computed from.
    """

    device_reads: tuple[int, ...]
    host_read: int
    decode: Decode | None
    prefill_s: float | None
    work: Work
    processors: Processors
    assumptions: Assumptions

    @property
    def steps(self) -> tuple[Step, ...]:
        """Parts of a decode step in words."""
        return self.decode.steps if self.decode else ()

    def width(self, quantity: Literal["step", "prompt"]) -> Width:
        """How far the time of a step, or of a prompt, may be off."""
        step: Quantity = "decode" if self.work.streams == 1 else "streams"
        return width(self.work, self.processors, step if quantity == "step" else "prefill")


def speed_of(choice: Choice, assumptions: Assumptions, calibration: Calibration = CALIBRATION) -> Speed:
    """Reads and times of `choice`, without what runs beside the model."""
    work = work_of(choice, ignore_cache=assumptions.ignore_kv_reads)
    rates = processors(choice.question.rig, assumptions, calibration)
    return Speed(
        device_reads=tuple([work.read_bytes(card) for card in work.cards]),
        host_read=work.read_bytes(work.host),
        decode=decode(work, rates, assumptions),
        prefill_s=prefill_s(work, rates),
        work=work,
        processors=rates,
        assumptions=assumptions,
    )


def decode_on_one(speed: Speed, index: int) -> Decode | None:
    """One decode step with everything that the cards hold on card `index` alone, None without its bandwidth."""
    cards = speed.work.cards
    everything = reduce(add, [card for position, card in enumerate(cards) if position != index], cards[index])
    work = replace(speed.work, cards=(everything,), arrangement="serial")
    rates = Processors(cards=(speed.processors.cards[index],), host=speed.processors.host)
    return decode(work, rates, speed.assumptions)
