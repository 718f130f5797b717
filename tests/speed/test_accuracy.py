"""How close predictions come to public measurements: the committed constants, and the report about them."""

import re
from collections.abc import Sequence
from functools import cache
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.calibration.fit import log_errors
from benchmarks.calibration.report import by_group, committed_lines, is_classic
from service.core.timing.constants import CALIBRATION, FITTED
from service.core.timing.ranges import COVERAGE_FRACTION
from tests.speed_cases import SpeedCase, refused_cases, speed_cases

REPORT = (Path(__file__).parents[2] / "ACCURACY.md").read_text("utf-8")


@cache
def errors() -> NDArray[np.float64]:
    """Logarithms of predicted / measured rates with the committed constants."""
    return log_errors({name: constant.value for name, constant in FITTED.items()}, speed_cases())


def sizes(cases: Sequence[SpeedCase]) -> NDArray[np.float64]:
    """Relative errors of these measurements."""
    positions = {case.id: index for index, case in enumerate(speed_cases())}
    return np.abs(np.expm1(errors()[[positions[case.id] for case in cases]]))


def held_out(group: str) -> dict[str, float]:
    """A group's line of the cross-validation in the report."""
    line = next(line for line in REPORT.splitlines() if line.startswith(f"| **{group}** |"))
    names = ("n", "mape", "median", "within_10", "within_15", "in_range")
    return dict(zip(names, map(float, re.findall(r"\| ([\d.]+)", line)), strict=True))


def test_the_report_is_what_the_committed_constants_give() -> None:
    """Whoever changes a rule or a constant writes the report again: python benchmarks/calibrate.py."""
    for line in committed_lines(speed_cases(), errors()):
        assert line in REPORT.splitlines()


def test_nearly_every_measurement_can_be_planned() -> None:
    """Only splits that a build of that month did not have any more are left out."""
    assert len(refused_cases()) == 4
    assert all("row" in why for why in refused_cases().values())


def test_the_classics() -> None:
    """Llama 3 8B and 70B on one to eight NVIDIA cards with builds of May 2024 are within 6 % in the mean."""
    classics = [case for case in speed_cases() if is_classic(case)]
    assert len(classics) > 180
    assert sizes(classics).mean() <= 0.06


@pytest.mark.parametrize(
    ("group", "median"),
    [
        ("cuda, one card or layer split, decode", 5),
        ("cuda, one card or layer split, prefill", 15),
        ("cuda, row and tensor split, decode", 15),
        ("metal, one card or layer split, decode", 12),
        ("rocm, one card or layer split, decode", 12),
        ("vulkan, one card or layer split, decode", 12),
    ],
)
def test_cards_that_were_held_out(group: str, median: float) -> None:
    """A card is predicted this well by constants that never saw it."""
    assert held_out(group)["median"] <= median


def test_decode_on_cuda_is_rarely_far_off() -> None:
    """Held out, 88 of 100 measurements are within 15 %, and the mean error is at most 7 %."""
    found = held_out("cuda, one card or layer split, decode")
    assert found["within_15"] >= 88
    assert found["mape"] <= 7


def covered_by_group() -> dict[str, tuple[int, float]]:
    """Measurements of every group and the share in their range, by the report: each group by backend, split and metric.

    The last column comes from widths that the other folds' held-out errors lead to.
    """
    lines = [
        line.split("|") for line in REPORT.splitlines() if re.match(r"\| \w+, [\w ]+, [\w ]+ \|.*\| \d+ \|$", line)
    ]
    return {line[1].strip(): (int(line[2]), int(line[7]) / 100) for line in lines if len(line) == 9}


def test_ranges_cover_what_they_say() -> None:
    """Of all held-out measurements 80 to 92 % fall into their range."""
    counted = covered_by_group().values()
    total = sum(n for n, _ in counted)
    assert total == len(speed_cases())
    assert 0.80 <= sum(n * share for n, share in counted) / total <= 0.92


@pytest.mark.parametrize("group", [group for group, (n, _) in covered_by_group().items() if n >= 20])
def test_ranges_cover_what_they_say_in_every_group(group: str) -> None:
    """Neither too narrow nor too wide for any backend, split and metric: 80 to 92 %, and two standard errors."""
    n, share = covered_by_group()[group]
    chance = 2 * sqrt(COVERAGE_FRACTION * (1 - COVERAGE_FRACTION) / n)
    assert 0.80 - chance <= share <= 0.92 + chance


def test_a_prediction_is_the_plans_own() -> None:
    """What is compared here is what a plan says."""
    from tests.planner import ask  # noqa: PLC0415 - the planner of the whole service

    case = next(case for case in speed_cases() if case.id == "gpu-benchmarks-on-0001")
    assert by_group(case) == "cuda, one card, decode"
    plan = ask(
        "llama-3.1-8b:Q4_K_M",
        "rtx-3070",
        workload={"prompt_tokens": 1, "output_tokens": 512, "context_tokens": 768},
        engine={
            "version": "b2824",
            "tool": "llama-bench",
            "split_mode": "none",
            "n_gpu_layers": 99,
            "flash_attn": False,
        },
    )
    assert plan.speed is not None
    assert plan.speed.decode_tokens_per_s.mid == pytest.approx(case.predicted(CALIBRATION))
