"""What devices and the host need, for the verdict."""

from typing import Final

import pytest

from service.core.engines.llamacpp.needs import overhead_bytes, overhead_of
from service.core.engines.llamacpp.question import Choice, Question
from service.core.engines.llamacpp.settings import LlamaCppSettings, SplitMode
from service.core.types import Rig, Workload
from tests.models import load_model
from tests.rigs import gpu, rig

WORKLOAD: Final = Workload(context_tokens=8192)


def placed(cards: Rig, split_mode: SplitMode) -> Choice:
    question = Question.of(load_model("llama-3.2-1b:Q4_K_M"), cards, WORKLOAD)
    return question.place(LlamaCppSettings(split_mode=split_mode, n_gpu_layers="all"), 8192)


@pytest.mark.parametrize("split_mode", ["layer", "tensor", "none"])
def test_a_need_is_what_lies_on_a_card_and_its_overhead(split_mode: SplitMode) -> None:
    """Whether the overhead is made up from its parts or read off the need."""
    choice = placed(rig(gpu("cuda"), gpu("cuda")), split_mode)
    question, placement = choice.question, choice.placement
    for device, need in zip(placement.devices, choice.needs, strict=False):
        overhead = overhead_bytes(question.model, question.hp, placement, device)
        assert overhead_of(device, need) == overhead
        assert need.total_bytes - device.total_bytes == overhead - device.reduction_bytes


def test_the_host_has_room_for_cards_without_memory_of_their_own() -> None:
    """What lies on the GPU part of a chip lies in main memory."""
    (card, host) = placed(rig(gpu("metal", unified_memory=True)), "layer").needs
    assert host.total_bytes > card.total_bytes > 0
