"""What a placement makes cards do together."""

import pytest

from service.core.engines.llamacpp.work import work_of
from tests.speed_cases import placed


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
    choice = placed(
        {
            "model": "llama-3.1-8b:Q4_K_M",
            "rig": {"gpus": gpus},
            "workload": {"context_tokens": 4096},
            "engine": {"split_mode": "tensor", "n_gpu_layers": "all", "date": date},
        }
    )
    assert work_of(choice).exchange.in_one_kernel is expected
