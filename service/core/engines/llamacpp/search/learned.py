"""What placements tell about memory besides weights and caches, by the part that a card plays."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from service.core.engines.llamacpp.question import Choice
from service.core.engines.llamacpp.range_sizes import range_sizes

PIPELINE_COPIES: Final = 4
"""Graph inputs that a pipeline keeps of each (GGML_SCHED_MAX_COPIES, ggml/CMakeLists.txt)."""


class Part(NamedTuple):
    """What compute buffers depend on, where blocks are alike.

    card: its position where something besides the model lies on it, else None; backend; whether another card comes
    before or after; whether it holds blocks without their experts; whether slots or experts are on the host; whether
    the cards work in a pipeline.
    """

    card: int | None
    backend: str
    first: bool
    last: bool
    lighter: bool
    offloaded: bool
    pipelined: bool


@dataclass(slots=True, kw_only=True)
class Learned:
    """Bytes by part, from every placement that was looked at; of a part that was not seen the least it can be."""

    by_card: bool = False
    known: dict[Part, int] = field(default_factory=dict)

    def taken_bytes(self, part: Part) -> int:
        """What a card needs besides the slots it holds, as far as known.

        Without a pipeline a buffer is at least as large as one of the pipeline's copies.
        """
        found = self.known.get(part)
        if found is None and not part.pipelined and not part.offloaded:
            found = self.known.get(part._replace(pipelined=True), 0) // PIPELINE_COPIES
        return found or 0

    def observe(self, choice: Choice, *, lighter_before: int = 0) -> bool:
        """Keep what a placement with compute buffers shows; whether any card needs more than was known."""
        news, sizes = False, range_sizes(choice.question, choice)
        for card, (first, end) in used_ranges(choice):
            part = self.part(choice, card, first, end, lighter_before)
            taken = sizes.taken_bytes(choice, card)
            if taken > self.known.get(part, 0):
                self.known[part] = taken
                news = True
        return news

    def part(self, choice: Choice, card: int, first: int, end: int, lighter_before: int) -> Part:
        """The part that a card plays in a placement."""
        others = [other for other, _ in used_ranges(choice)]
        return Part(
            card=card if self.by_card else None,
            backend=choice.question.rig.gpus[card].backend,
            first=card == others[0],
            last=end == choice.placement.slots.n_slots,
            lighter=first < lighter_before,
            offloaded=bool(lighter_before) or not choice.placement.slots.fully_offloaded,
            pipelined=choice.placement.pipeline_parallel,
        )


def used_ranges(choice: Choice) -> Sequence[tuple[int, tuple[int, int]]]:
    """Cards that hold slots, in the order of the slots, with their ranges."""
    return [(run.device, (run.first, run.end)) for run in choice.placement.slots.runs if run.device >= 0]
