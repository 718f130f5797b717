"""What a server copies before a first token: as its logs say and its source has it, and what of it is measured."""

from collections.abc import Mapping
from typing import Any

import pytest

from service.contract.validation import validate_request
from service.core.engines.llamacpp.checkpoints import checkpoints_of
from service.core.timing.constants import CALIBRATION
from service.core.units import MIB
from tests.planner import builtin_planner
from tests.speed_cases import placed, speed_cases

HYBRID, WINDOWED, PLAIN = "qwen3.6-27b:Q4_K_M", "gemma-4-26b-a4b:Q4_K_M", "qwen3-32b:Q4_K_M"


def asked(model: str, prompt_tokens: int, **engine: object) -> Mapping[str, Any]:
    """A model on an RTX 5090, its answer after one prompt."""
    return {
        "model": model,
        "rig": {"gpus": ["rtx-5090"]},
        "workload": {"prompt_tokens": prompt_tokens, "output_tokens": 1, "context_tokens": 12288, "parallel": 1},
        "engine": {"name": "llama.cpp", "version": "b9596", "split_mode": "none", **engine},
    }


@pytest.mark.parametrize(
    ("model", "prompt_tokens", "engine", "count", "mib"),
    [
        # size printed for every checkpoint of Qwen3.6-27B, issues 22929 and 11073 of llama.cpp and unsloth
        pytest.param(HYBRID, 346, {}, 1, 149.626, id="recurrent-state"),
        pytest.param(HYBRID, 8733, {}, 2, 2 * 149.626, id="recurrent-state-twice"),
        # sizes printed for gemma-4-26B-A4B with q8_0 caches and ubatches of 1,024 tokens: the window, in any context
        pytest.param(
            WINDOWED,
            9798,
            {"cache_type_k": "q8_0", "cache_type_v": "q8_0", "n_ubatch": 1024},
            2,
            2 * 106.262,
            id="window",
        ),
    ],
)
def test_copies_are_as_large_as_logs_say(
    model: str, prompt_tokens: int, engine: Mapping[str, Any], count: int, mib: float
) -> None:
    """Number and size of the checkpoints of a cold prompt."""
    found = checkpoints_of(placed(asked(model, prompt_tokens, **engine)))
    assert found is not None
    assert found.count == count
    assert found.size_bytes == pytest.approx(mib * MIB, rel=1e-3)


@pytest.mark.parametrize(
    ("model", "prompt_tokens", "engine"),
    [
        pytest.param(PLAIN, 4096, {}, id="a-cache-that-can-be-rolled-back"),
        pytest.param(WINDOWED, 4096, {"swa_full": True}, id="a-window-that-keeps-everything"),
        pytest.param(HYBRID, 4, {}, id="a-prompt-that-ends-at-once"),
        pytest.param(HYBRID, 4096, {"tool": "llama-bench"}, id="a-benchmark"),
        pytest.param(HYBRID, 4096, {"version": None, "date": "2026-02-20"}, id="a-build-before"),
    ],
)
def test_nothing_is_copied_where_nothing_needs_to_be(model: str, prompt_tokens: int, engine: Mapping[str, Any]) -> None:
    """Plain caches, full windows, prompts of a few tokens, other programs and older builds."""
    assert checkpoints_of(placed(asked(model, prompt_tokens, **engine))) is None


def test_longer_prompts_never_copy_less() -> None:
    """Bytes grow with a window's filling up to the window."""
    sizes = []
    for prompt_tokens in (5, 64, 512, 1024, 2048, 4096):
        found = checkpoints_of(placed(asked(WINDOWED, prompt_tokens)))
        sizes.append(found.size_bytes if found else 0)
    assert sizes == sorted(sizes)
    assert sizes[-1] == sizes[-2]


def test_first_tokens_of_a_server_are_close_to_measured_ones() -> None:
    """Within a fifth of the rows, which helped to find the rate; without copies they come three times too soon."""
    measured = [case for case in speed_cases() if case.metric == "ttft_s" and case.backend == "cuda"]
    assert len(measured) == 3
    for case in measured:
        predicted = case.predicted(CALIBRATION)
        assert predicted is not None
        assert predicted == pytest.approx(case.value, rel=0.2), case.id
        assert predicted - case.copies_s < 0.4 * case.value


def test_an_answer_says_what_its_first_token_waits_for() -> None:
    """The copies are in the time and in the steps, with a range that reaches down to almost none."""
    served, benched = (
        builtin_planner().plan(validate_request(asked(HYBRID, 512, tool=tool)))
        for tool in ("llama-server", "llama-bench")
    )
    assert served.speed is not None
    assert served.speed.ttft_s is not None
    assert benched.speed is not None
    assert benched.speed.ttft_s is not None
    copies_s = 149.626 * MIB / 0.75e9
    assert served.speed.ttft_s.mid - benched.speed.ttft_s.mid == pytest.approx(copies_s, rel=0.01)
    assert served.speed.ttft_s.low - benched.speed.ttft_s.low == pytest.approx(0.15 * copies_s, rel=0.03)
    assert served.speed.prefill_tokens_per_s == benched.speed.prefill_tokens_per_s
    assert any("checkpoint" in step for step in served.explanation)
    assert not any("checkpoint" in step for step in benched.explanation)
