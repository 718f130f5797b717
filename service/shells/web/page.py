"""GET /: the question as a form with its answer, and GET /answer: the answer alone, for the form as it changes."""

from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from service.contract.problem import Problem, problem_of
from service.core.problems import PlanProblem
from service.planning.context_curve import context_curve
from service.planning.planner import Planner
from service.shells.rest.plan_threads import in_plan_thread
from service.shells.rest.state import PlannerState
from service.shells.web import controls
from service.shells.web.answer import BASES, VERDICTS, answer_of, supply_w
from service.shells.web.card_rows import BLANK, BLANK_OWN, card_row
from service.shells.web.chart import chart_values
from service.shells.web.links import adopted_question, suggested_questions
from service.shells.web.question import Question, place_of, read_question
from service.shells.web.rendering import FOLDER, HEADERS, origin, render

router = APIRouter(include_in_schema=False)
_files = StaticFiles(directory=FOLDER / "static")


@router.get("/")
async def get_page(request: Request, planner: PlannerState) -> Response:
    """The form of the question that the address states, with its answer."""
    return await in_plan_thread(request, _page, request, planner)


def _page(request: Request, planner: Planner) -> Response:
    question = read_question(request.query_params.multi_items())
    return render("page.html", origin=origin(request), **(_form(question, planner) | _answer(question, planner)))


@router.get("/answer")
async def get_answer(request: Request, planner: PlannerState) -> Response:
    """The answer to the question that the address states, as a part of the page; a problem is one too."""
    return await in_plan_thread(request, _part, request, planner)


def _part(request: Request, planner: Planner) -> Response:
    question = read_question(request.query_params.multi_items())
    return render("answer.html", origin=origin(request), **_answer(question, planner))


@router.get("/answer/chart")
async def get_chart(request: Request, planner: PlannerState) -> Response:
    """Memory and speed over the context, as a part of the answer; empty where no other context can be asked for."""
    return await in_plan_thread(request, _chart, request, planner)


def _chart(request: Request, planner: Planner) -> Response:
    question = read_question(request.query_params.multi_items())
    try:
        asked = question.request()
        curve = context_curve(planner.plan, asked)
    except PlanProblem:
        return render("no_chart.html")
    if len(curve.plans) < 2:
        return render("no_chart.html")
    return render("chart.html", **chart_values(curve, asked.workload.context_tokens))


@router.get("/static/{path:path}")
async def get_file(path: str, request: Request) -> Response:
    """A script, a style sheet or an image of the page."""
    response = await _files.get_response(path, request.scope)
    response.headers.update(HEADERS)
    return response


def _form(question: Question, planner: Planner) -> dict[str, Any]:
    return {
        "question": question,
        "cards": [card_row(parameter) for parameter in question.values("gpus")],
        "blank_card": BLANK,
        "blank_own_card": BLANK_OWN,
        **_model(question, planner),
        "workload_controls": controls.workload_controls(),
        "machine_controls": controls.machine_controls(),
        "engine_controls": controls.engine_controls(),
        "assumption_controls": controls.assumption_controls(),
        "card_controls": controls.card_controls(),
        "own_card_controls": controls.own_card_controls(),
    }


def _model(question: Question, planner: Planner) -> dict[str, Any]:
    """The catalogue's model that the question names and its quantisation; nothing where it names none there."""
    catalogue = planner.catalogues.models
    named = question.value("model")
    name, reference = named.partition(":")[0], None
    with suppress(PlanProblem):
        row = catalogue.resolve(named).row
        name, reference = row.name, catalogue.reference_to(row)
    model = next((found for found in catalogue.search(name) if found.name == name), None)
    return {"model": model, "model_reference": reference}


def _answer(question: Question, planner: Planner) -> dict[str, Any]:
    try:
        request = question.request()
        plan = planner.plan(request).model_dump(mode="json")
    except PlanProblem as refused:
        return _problem(question, problem_of(refused))
    return {
        "question": question,
        "chart_address": f"/answer/chart?{urlencode(question.parameters, doseq=True)}",
        "answer": answer_of(plan),
        "bases": BASES,
        "verdicts": VERDICTS,
        "supply_w": supply_w(request),
        "request_json": request.model_dump_json(exclude_defaults=True),
        "alternatives": [(other, adopted_question(request, plan, other)) for other in plan["alternatives"]],
    }


def _problem(question: Question, refused: Problem) -> dict[str, Any]:
    return {
        "question": question,
        "problem": refused,
        "suggestions": list(suggested_questions(question, refused)),
        "refused": [place_of(error.pointer) for error in refused.errors],
    }
