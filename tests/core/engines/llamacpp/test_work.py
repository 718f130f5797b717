"""What a placement makes cards do, and which placements make them do the same."""

from typing import Any

import pytest

from service.core.engines.llamacpp.question import Choice
from service.core.engines.llamacpp.speed import speed_of
from service.core.engines.llamacpp.work import work_of
from service.core.speed import Assumptions
from tests.speed_cases import placed


def choice(context_tokens: int = 8192, **stated: Any) -> Choice:
    """A model over two cards; stated: fields of the engine, or the workload in place of its defaults."""
    workload = stated.pop("workload", {})
    return placed(
        {
            "model": "llama-3.1-8b:Q4_K_M",
            "rig": {"gpus": ["2x rtx-3090"]},
            "workload": {"context_tokens": context_tokens, **workload},
            "engine": {"n_gpu_layers": "all", "tensor_split": [1, 1], **stated},
        }
    )


@pytest.mark.parametrize(
    ("gpus", "date", "expected"),
    [
        (["2x rtx-3090"], None, True),
        (["2x rtx-4090"], "2026-07", True),
        (["rtx-2080-ti", "rtx-4090"], None, True),
        (["2x rtx-3090"], "2026-04", False),
        (["3x rtx-3090"], None, False),
        (["2x p40"], None, False),
        (["2x rx-7900-xtx"], None, False),
    ],
)
def test_two_new_enough_cards_of_cuda_reduce_in_one_kernel(gpus: list[str], date: str | None, expected: bool) -> None:
    """The engine's own all-reduce serves exactly two cards from Volta on, since May 2026."""
    tensor_split = placed(
        {
            "model": "llama-3.1-8b:Q4_K_M",
            "rig": {"gpus": gpus},
            "workload": {"context_tokens": 4096},
            "engine": {"split_mode": "tensor", "n_gpu_layers": "all", "date": date},
        }
    )
    assert work_of(tensor_split).exchange.in_one_kernel is expected


def test_contexts_longer_than_what_is_read_make_for_the_same_work_and_speed() -> None:
    """A token reads no further than its depth, so that both are the same object; so do shares of the same slots."""
    work, speed = work_of(choice()), speed_of(choice(), Assumptions())
    for other in (choice(16_384), choice(5000), choice(tensor_split=[50, 50])):
        assert work_of(other) is work
        assert speed_of(other, Assumptions()) is speed


@pytest.mark.parametrize(
    "stated",
    [
        {"context_tokens": 512},
        {"workload": {"prompt_tokens": 2048}},
        {"workload": {"output_tokens": 512}},
        {"workload": {"cached_tokens": 100}},
        {"workload": {"parallel": 2}},
        {"n_ubatch": 256},
        {"flash_attn": False},
        {"cache_type_k": "q8_0"},
        {"kv_offload": False},
        {"tensor_split": [3, 1]},
        {"n_gpu_layers": 20},
        {"split_mode": "tensor"},
        {"date": "2025-10"},
    ],
    ids=str,
)
def test_whatever_changes_what_is_done_makes_for_other_work(stated: dict[str, Any]) -> None:
    """Speed is looked up by what it depends on: none of this is left out."""
    other = choice(**stated)
    assert work_of(other) is not work_of(choice())
    speeds = [speed_of(each, Assumptions()) for each in (other, choice())]
    assert len({(speed.prefill_s, speed.token_s, speed.device_reads, speed.work.built) for speed in speeds}) == 2


def test_a_cache_that_is_ignored_is_not_read() -> None:
    """Work with and without it are kept apart, and so are speeds under other assumptions."""
    assert {card.cache_bytes for card in work_of(choice(), ignore_cache=True).cards} == {0}
    assert all(card.cache_bytes for card in work_of(choice()).cards)
    halved = speed_of(choice(), Assumptions(bandwidth_fraction=0.4))
    assert (halved.token_s or 0.0) > (speed_of(choice(), Assumptions()).token_s or 0.0)
