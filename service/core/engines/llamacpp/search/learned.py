"""What placements tell about memory besides weights and caches, by the part that a card plays and what it holds.

Source: buffers are as large as their most demanding graph, sched_reserve, src/llama-context.cpp:616-768
(llama.cpp in llama-cpp-python 0.3.36).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from operator import or_
from typing import Final, NamedTuple

from service.core.engines.llamacpp.compute.block_kinds import kinds_in_memory
from service.core.engines.llamacpp.question import Choice, Question
from service.core.engines.llamacpp.range_sizes import range_sizes

PIPELINE_COPIES: Final = 4
"""Graph inputs that a pipeline keeps of each (GGML_SCHED_MAX_COPIES, ggml/CMakeLists.txt)."""

_COUNTED: Final = 3
"""Blocks up to which their number matters for a buffer: so many together determine what each of them needs."""


class Part(NamedTuple):
    """The part that a card plays.

    card: its position where something besides the model lies on it, else None; backend; whether no other card comes
    before or after; whether slots or experts are on the host; whether the cards work in a pipeline.
    """

    card: int | None
    backend: str
    first: bool
    last: bool
    offloaded: bool
    pipelined: bool


@dataclass(frozen=True, kw_only=True)
class Kinds:
    """Which blocks are alike: a number per slot, the output layer's last; blocks before `lighter` have their own kinds.

    What a range holds is written as bits: one per kind, and one each for two and for three slots.
    """

    by_slot: Sequence[int]
    count: int
    lighter: int = 0

    @classmethod
    def of(cls, question: Question) -> "Kinds":
        """Kinds of a model's blocks; draft layers, which have no graph here, are one kind."""
        hp = question.hp
        kinds = kinds_in_memory(question.model, hp)
        count = max(kinds, default=0) + 2
        rest = hp.n_layer_all + 1 - len(kinds)
        return cls(by_slot=(*kinds, *((count - 1,) * rest)), count=count)

    @cached_property
    def bits(self) -> Sequence[int]:
        """The bit of every slot's kind."""
        return [1 << kind + (self.count if slot < self.lighter else 0) for slot, kind in enumerate(self.by_slot)]

    @cached_property
    def number_bits(self) -> Sequence[int]:
        """The bits of a number of slots, for every number there can be."""
        most = [((1 << (number - 1)) - 1) << (2 * self.count) for number in range(1, _COUNTED + 1)]
        return [0, *most, *most[-1:] * max(0, len(self.by_slot) - _COUNTED)]

    def held(self, first: int, end: int) -> int:
        """What a range holds."""
        return reduce(or_, self.bits[first:end], self.number_bits[end - first])


@dataclass(slots=True, kw_only=True)
class Learned:
    """Bytes by part and by what is held, from every placement that was looked at."""

    by_card: bool = False
    known: dict[Part, dict[int, int]] = field(default_factory=dict)

    def knows(self, part: Part) -> bool:
        """Whether anything was seen that says what a part takes, whatever it holds."""
        may_be_pipelined = not part.pipelined and not part.offloaded
        return part in self.known or (may_be_pipelined and part._replace(pipelined=True) in self.known)

    def taken_bytes(self, part: Part, held: int) -> int:
        """The least that a card needs besides its slots: as much as it did with a part of what it holds.

        Without a pipeline a buffer is at least as large as one of the pipeline's copies.
        """
        known = self.known.get(part, {})
        found = max((taken for seen, taken in known.items() if seen & held == seen), default=0)
        if part.pipelined or part.offloaded:
            return found
        return max(found, self.taken_bytes(part._replace(pipelined=True), held) // PIPELINE_COPIES)

    def observe(self, choice: Choice, kinds: Kinds) -> bool:
        """Keep what a placement with compute buffers shows; whether any card needs more than was known."""
        news, sizes = False, range_sizes(choice.question, choice)
        used = [run for run in choice.placement.slots.runs if run.device >= 0]
        for run in used:
            part = Part(
                card=run.device if self.by_card else None,
                backend=choice.question.rig.gpus[run.device].backend,
                first=run is used[0],
                last=run is used[-1],
                offloaded=kinds.lighter > 0 or not choice.placement.slots.fully_offloaded,
                pipelined=choice.placement.pipeline_parallel,
            )
            held, taken = kinds.held(run.first, run.end), sizes.taken_bytes(choice, run.device)
            if taken > self.taken_bytes(part, held):
                self.known.setdefault(part, {})[held] = taken
                news = True
        return news
