"""Rows of a table: what they say is what the whole answer to the same question says."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.contract.cells import Cell
from service.contract.columns import request_of_cells
from service.contract.problem import problem_of
from service.contract.validation import validate_request
from service.core.problems import PlanProblem
from service.planning.batch.answering import BLANK, answer_cells, question_of_cells
from service.planning.row import row_of_plan
from tests.planner import builtin_planner

MODELS = ("llama-3.2-3b:Q4_K_M", "qwen3-8b:Q6_K", "gpt-oss-20b:MXFP4", "gemma-2-9b:Q4_K_M")
RIGS = ("rtx-3090", "2x rtx-3060-12gb", "rtx-3060-12gb + rtx-4060-ti-16gb", "rx-7900-xtx")
QUESTIONS = st.fixed_dictionaries(
    {"model": st.sampled_from(MODELS), "gpus": st.sampled_from(RIGS), "context_tokens": st.integers(256, 200_000)},
    optional={
        "parallel": st.sampled_from((2, 4)),
        "prompt_tokens": st.integers(1, 8000),
        "cache_type_k": st.just("q8_0"),
        "n_gpu_layers": st.integers(0, 40),
        "psu_rated_w": st.just(850),
    },
)


def expected(cells: dict[str, Any]) -> tuple[Cell, ...]:
    """The row of the whole answer, or the problem in its place."""
    try:
        whole = builtin_planner().plan(request_of_cells(cells, decimal_comma=False))
    except PlanProblem as refused:
        return (*BLANK[:-1], f"{problem_of(refused).title}: {refused.detail}")
    return (*row_of_plan(whole).values(), None)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(QUESTIONS)
def test_a_row_says_what_the_whole_answer_says(cells: dict[str, Any]) -> None:
    """Rows are answered without runners-up, advice and explanation, which no column shows."""
    (answered,) = answer_cells(builtin_planner(), [question_of_cells(cells, decimal_comma=False)])
    assert answered == expected(cells)


def test_figures_alone_are_those_of_the_whole_plan_of_vllm() -> None:
    """Its plans have no runners-up, but advice and explanation."""
    asked = {"model": "qwen3-8b:BF16", "rig": {"gpus": ["2x rtx-3090"]}, "engine": {"name": "vllm"}}
    whole, alone = (builtin_planner().plan(validate_request(asked), alone=alone) for alone in (False, True))
    words = {"advice", "explanation"}
    assert whole.explanation
    assert not alone.explanation
    assert alone.model_dump(exclude=words) == whole.model_dump(exclude=words)
