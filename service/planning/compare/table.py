"""A comparison answered row by row: a row that has no answer says why, the others have theirs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from service.contract.compare import Cell, CompareBest, CompareRequest, CompareRow, Comparison, Measure
from service.contract.plan import Plan
from service.contract.problem import Problem, problem_of
from service.contract.request import PlanRequest
from service.core.problems import PlanProblem
from service.planning.compare.differences import difference, stages
from service.planning.compare.labels import engine_label, model_label, rig_label
from service.planning.compare.questions import questions_of, varied
from service.planning.row import csv_of_rows, row_of_plan

# whether more is better, and what the measure is called
_MEASURES: Final[dict[Measure, tuple[bool, str]]] = {
    "decode_tokens_per_s": (True, "decodes fastest"),
    "aggregate_decode_tokens_per_s": (True, "decodes most for all streams together"),
    "prefill_tokens_per_s": (True, "reads prompts fastest"),
    "ttft_s": (False, "gives the first token soonest"),
    "max_context_tokens": (True, "has room for the longest context"),
    "least_headroom_bytes": (True, "leaves the most free on its fullest card"),
}


class Plans(Protocol):
    """What answers one question."""

    def plan(self, request: PlanRequest) -> Plan:
        """The plan; raises PlanProblem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answered:
    """A question with its answer."""

    question: PlanRequest
    labels: tuple[str, str, str, str]
    plan: Plan | None = None
    problem: Problem | None = None


def comparison_of(request: CompareRequest, planner: Plans) -> Comparison:
    """Answer every combination; raises as `questions_of` does."""
    answered = [_answer(question, planner, index) for index, question in enumerate(questions_of(request))]
    first = next((row for row in answered if row.plan is not None), None)
    rows = [_row(row, first, with_plan=request.plans) for row in answered]
    return Comparison(varied=varied(request), rows=rows, best=list(_best(answered, rows)))


def csv_of_comparison(table: Comparison) -> str:
    """One line per row: what was asked, the figures, and the problem where there are none."""
    columns = next((list(row.figures) for row in table.rows if row.figures), [])
    return csv_of_rows([_cells(row, columns) for row in table.rows])


def _cells(row: CompareRow, columns: Sequence[str]) -> dict[str, Cell]:
    asked: dict[str, Cell] = {
        "asked_model": row.model,
        "asked_rig": row.rig,
        "asked_context_tokens": row.context_tokens,
        "asked_engine": row.engine,
    }
    figures = {column: None if row.figures is None else row.figures[column] for column in columns}
    problem = None if row.problem is None else row.problem.detail
    return asked | figures | {"difference": row.difference, "problem": problem}


def _answer(question: PlanRequest, planner: Plans, index: int) -> _Answered:
    context = question.workload.context_tokens
    labels = (
        model_label(question.model),
        rig_label(question.rig),
        "the largest context" if context is None else f"{context:,} tokens",
        engine_label(question.engine),
    )
    try:
        return _Answered(question=question, labels=labels, plan=planner.plan(question))
    except PlanProblem as refused:
        return _Answered(question=question, labels=labels, problem=problem_of(refused, f"/compare#/rows/{index}"))


def _row(row: _Answered, first: _Answered | None, *, with_plan: bool) -> CompareRow:
    model, rig, _, engine = row.labels
    return CompareRow(
        model=model,
        rig=rig,
        context_tokens=row.question.workload.context_tokens,
        engine=engine,
        request=row.question,
        figures=None if row.plan is None else dict(row_of_plan(row.plan)),
        difference=_difference(row, first),
        plan=row.plan if with_plan else None,
        problem=row.problem,
    )


def _difference(row: _Answered, first: _Answered | None) -> str | None:
    if first is None or first.plan is None or row.plan is None or row is first:
        return None
    changes = [
        f"{here} instead of {there}" for here, there in zip(row.labels, first.labels, strict=True) if here != there
    ]
    return difference(changes or ["the same question"], row.plan, first.plan)


def _best(answered: Sequence[_Answered], rows: Sequence[CompareRow]) -> Iterator[CompareBest]:
    """The first best row by each measure, of those on the cards, or, where none is, of those that run at all."""
    running = [index for index, row in enumerate(answered) if row.plan is not None and row.plan.fits] or [
        index for index, row in enumerate(answered) if row.plan is not None and row.plan.verdict != "does_not_fit"
    ]
    together = any(row.question.workload.parallel > 1 for row in answered)
    for measure, (more, words) in _MEASURES.items():
        if measure == "aggregate_decode_tokens_per_s" and not together:
            continue
        values = [(_value(rows[index], measure), index) for index in running]
        known = [(value, index) for value, index in values if value is not None]
        if len(known) < 2:
            continue
        value, best = max(known, key=lambda each: (each[0] if more else -each[0], -each[1]))
        worst = (min if more else max)(known)[0]
        plan = answered[best].plan
        assert plan is not None  # noqa: S101 - only rows with a plan run
        yield CompareBest(measure=measure, row=best, value=value, why=_why(answered[best], words, value, worst, plan))


def _why(row: _Answered, words: str, value: float, worst: float, plan: Plan) -> str:
    model, rig, context, engine = row.labels
    worst_words = f"; the least good of those that run has {worst:,.6g}" if worst != value else "; all are alike"
    return f"{model} on {rig} at {context} with {engine} {words}: {value:,.6g}{worst_words}. It has {stages(plan)}."


def _value(row: CompareRow, measure: Measure) -> float | None:
    value = None if row.figures is None else row.figures[measure]
    return None if value is None or isinstance(value, str) else float(value)
