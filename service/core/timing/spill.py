"""What it costs where a driver puts what a card has no room for into main memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from service.core.memory import Need
from service.core.timing.assumed import LINK_FRACTION
from service.core.timing.processor import Processor, Processors
from service.core.timing.work import Part, Work

SPILLED_LINK_FRACTION: Final = 0.36
"""Share of a PCI Express link's rate in one direction at which a card reads what was moved to main memory.

Pages that come push others out, so that both directions are full. Source: RTX 3080 on PCIe 4.0 x16 under Windows,
11.3 GB/s in and 13.6 out of 31.5, while decode fell from 66 to 25 tokens per second
(github.com/sudoingX/qwen38-mtp, README.md and sweeps/rtx-3090.md).
"""

SPILLED_RANGE_FACTOR: Final = 2.0
"""How many times more or less it may cost: one machine was measured, and a driver chooses which pages it moves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spill:
    """What lies beyond the cards and what that adds; step_s: to a decode step, prompt_s: to a prompt."""

    spilled_bytes: int
    step_s: float
    prompt_s: float


def spill(work: Work, processors: Processors, needs: Sequence[Need]) -> Spill | None:
    """What a step and a prompt take more where cards read beyond their memory; needs: of the cards, and what follows.

    Any byte of a card is as likely as another to be outside, so that what a step reads of it is outside in the same
    proportion. Cards in turn wait one after the other, cards that share every layer for the slowest. None where nothing
    spills, and where a card has no memory of its own: what such a machine lacks, it swaps.
    """
    lacks = [max(0, -(need.headroom_bytes or 0)) for need in needs[: len(work.cards)]]
    cards = list(zip(work.cards, processors.cards, lacks, needs, strict=False))
    if not any(lacks) or any(_shares_memory(card) for card, _, lack, _ in cards if lack):
        return None
    steps_s, prompts_s = [], []
    for card, processor, lack, need in cards:
        outside = lack / need.total_bytes / spilled_bytes_per_s(processor) if lack else 0.0
        rows = work.prompt_tokens / work.ubatches
        steps_s.append(outside * work.read_in_step(card))
        prompts_s.append(outside * work.ubatches * (card.dense_bytes + work.experts_read(card, rows)))
    together = sum if work.arrangement == "serial" else max
    return Spill(spilled_bytes=sum(lacks), step_s=together(steps_s), prompt_s=together(prompts_s))


def spilled_bytes_per_s(processor: Processor) -> float:
    """Rate at which a card reads what was moved to main memory."""
    return processor.link_bytes_per_s / LINK_FRACTION * SPILLED_LINK_FRACTION


def _shares_memory(card: Part) -> bool:
    return card.gpu is not None and card.gpu.unified_memory
