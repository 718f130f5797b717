"""The version of the rules moves with the rules."""

from dataclasses import replace
from typing import Any, get_args

import pytest

from service.contract.validation import validate_request
from service.core.memory import Verdict
from tests.planner import builtin_planner
from tests.planning.rules_digests import (
    QUESTIONS,
    VERSIONS,
    Answered,
    answered,
    committed,
    questions,
    steady,
    unversioned,
)

COMMAND = "python -m tests.planning.rules_digests"


@pytest.fixture(scope="module")
def today() -> list[Answered]:
    """Every question with today's answer."""
    return [answered(question) for question in questions()]


def test_no_answer_changes_under_the_same_version(today: list[Answered]) -> None:
    """Who asks again gets the same answer or another version; a change of rules moves RULES_VERSION of its engine."""
    versions, earlier = committed()
    lines = QUESTIONS.read_text("utf-8").splitlines()
    changed = unversioned(earlier, today, versions)
    assert [lines[at] for at in changed] == [], f"move RULES_VERSION, then {COMMAND}"


def test_the_digests_are_of_today(today: list[Answered]) -> None:
    """Questions, models, cards and versions are those of the file, which one command writes anew."""
    assert committed() == (VERSIONS, today), COMMAND


def test_a_changed_answer_is_noticed() -> None:
    """Of one question, one engine, one set of data and one version; a new one of any of them is no change of rules."""
    one = Answered(engine="vllm", question="q", data="d", answer="a")
    other = replace(one, answer="b")
    version = {"vllm": "rules 1"}
    assert unversioned([one], [other], version, version) == [0]
    assert unversioned([one], [one], version, version) == []
    assert unversioned([one], [other], version, {"vllm": "rules 2"}) == []
    assert unversioned([one], [replace(other, data="e")], version, version) == []
    assert unversioned([one], [replace(other, question="p")], version, version) == []


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        ({"mid": 17.763824028081935, "bytes": 7}, False),
        ({"mid": 17.763924028081935, "bytes": 8}, False),
        ({"mid": 17.763824028081999, "bytes": 8, "message": "in other words"}, True),
    ],
)
def test_what_counts_as_another_answer(other: dict[str, Any], is_same: bool) -> None:
    """Integers to the last digit, floats to the sixth, and no sentences."""
    assert (steady({"mid": 17.763824028081935, "bytes": 8}) == steady(other)) is is_same


def test_the_questions_are_varied(today: list[Answered]) -> None:
    """Both engines, every verdict, refusals, and every part of an answer that has figures."""
    asked = questions()
    assert len({one.question for one in today}) == len(asked) >= 60
    planned = [validate_request(question) for question, one in zip(asked, today, strict=True) if one.data]
    assert {request.engine.name for request in planned} == {"llama.cpp", "vllm"}
    assert {builtin_planner().plan(request).verdict for request in planned} == set(get_args(Verdict))
    assert len(asked) - len(planned) >= 2
    engines = [question.get("engine", {}) for question in asked]
    assert {engine.get("split_mode") for engine in engines} >= {None, "none", "layer", "row", "tensor"}
    for field in ("draft", "n_cpu_moe", "date", "fit", "tensor_parallel_size", "pipeline_parallel_size"):
        assert any(engine.get(field) for engine in engines), field
    for field in ("psu", "circuit", "nvlink", "host", "preset"):
        assert any(question["rig"].get(field) for question in asked), field
