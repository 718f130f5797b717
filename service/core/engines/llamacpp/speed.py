"""Speed of a placement: what every device and the host do, turned into decode and prefill times."""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce
from math import hypot
from operator import add

from service.core.engines.llamacpp.drafting import draft_work
from service.core.engines.llamacpp.question import Choice
from service.core.engines.llamacpp.work import work_of
from service.core.speed import Assumptions, Step
from service.core.timing.constants import CALIBRATION, Calibration
from service.core.timing.decode import Decode, decode, part_time
from service.core.timing.prefill import prefill_s
from service.core.timing.processor import Processors, processors
from service.core.timing.ranges import Width, width
from service.core.timing.speculation import Drafting, Speculation, best_tokens, speculate
from service.core.timing.work import Work


@dataclass(frozen=True, kw_only=True, eq=False)
class Speed:
    """Reads and times of a choice; compared by identity, so that what is said about one can be memoised.

    device_reads, host_read: bytes for one token of one stream. decode: one step of all streams, None where a device
    that works has no known bandwidth; steps: its parts. speculation: a step with the draft, None without one.
    prefill_s: the whole prompt of one stream, the draft's part of it included, None where a rate is not known. work,
    processors, assumptions: what all of it was computed from.
    """

    device_reads: tuple[int, ...]
    host_read: int
    decode: Decode | None
    speculation: Speculation | None
    prefill_s: float | None
    work: Work
    processors: Processors
    assumptions: Assumptions

    @property
    def token_s(self) -> float | None:
        """Time of one token of every stream, with the draft where there is one."""
        if self.speculation is not None:
            return self.speculation.token_s
        return self.decode.step_s if self.decode else None

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """Parts of the time of one token in words."""
        if self.speculation is not None:
            return self.speculation.steps
        return self.decode.steps if self.decode else ()

    @cached_property
    def step_width(self) -> Width:
        """How far the time of a token may be off; what a draft gains may be off as well."""
        found = width(self.work, self.processors, "decode" if self.work.streams == 1 else "streams")
        if self.speculation is None:
            return found
        gain = width(self.work, self.processors, "speculation")
        return replace(found, fraction=hypot(found.fraction, gain.fraction))

    @cached_property
    def prompt_width(self) -> Width:
        """How far the time of a prompt may be off."""
        return width(self.work, self.processors, "prefill")


def speed_of(choice: Choice, assumptions: Assumptions, calibration: Calibration = CALIBRATION) -> Speed:
    """Reads and times of `choice`, without what runs beside the model."""
    work = work_of(choice, ignore_cache=assumptions.ignore_kv_reads)
    rates = processors(choice.question.rig, assumptions, calibration)
    drafts = draft_work(choice, work)
    plain = _plain_speed(work, rates, assumptions)
    if drafts is None:
        return plain
    prompt_s = plain.prefill_s
    if prompt_s is not None and drafts.prompt is not None:
        prompt_s += prefill_s(drafts.prompt, rates) or 0.0
    return replace(
        plain, speculation=_speculation(choice, work, drafts.drafting, rates, assumptions), prefill_s=prompt_s
    )  # fmt: skip


# with what is said about it a speed is some 10 KiB
@lru_cache(maxsize=512)
def _plain_speed(work: Work, rates: Processors, assumptions: Assumptions) -> Speed:
    """Reads and times without a draft; the same for most contexts, as a token reads no further than its depth."""
    return Speed(
        device_reads=tuple([work.read_bytes(card) for card in work.cards]),
        host_read=work.read_bytes(work.host),
        decode=decode(work, rates, assumptions),
        speculation=None,
        prefill_s=prefill_s(work, rates),
        work=work,
        processors=rates,
        assumptions=assumptions,
    )


def _speculation(
    choice: Choice, work: Work, drafting: Drafting, rates: Processors, assumptions: Assumptions
) -> Speculation | None:
    draft = choice.question.companions.draft
    if draft is None:
        return None
    return speculate(
        work, drafting, rates, assumptions, tokens=draft.n_max, acceptance_fraction=draft.accepted_fraction
    )


def most_useful_draft(choice: Choice, speed: Speed) -> Speculation | None:
    """The number of proposed tokens with which the draft of a choice is fastest; None without one."""
    drafts, draft = draft_work(choice, speed.work), choice.question.companions.draft
    if drafts is None or draft is None:
        return None
    return best_tokens(
        lambda tokens: speculate(
            speed.work,
            drafts.drafting,
            speed.processors,
            speed.assumptions,
            tokens=tokens,
            acceptance_fraction=draft.accepted_fraction,
        )
    )


def step_on_one_s(speed: Speed, index: int) -> float | None:
    """Time of a decode step with everything that the cards hold on card `index` alone, None without its bandwidth."""
    work, processor = speed.work, speed.processors.cards[index]
    if speed.decode is None or processor.reading_bytes_per_s is None:
        return None
    everything = reduce(add, [card for position, card in enumerate(work.cards) if position != index], work.cards[index])
    return part_time(work, everything, processor, speed.assumptions).s + speed.decode.host_s
