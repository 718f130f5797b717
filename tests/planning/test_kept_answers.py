"""Answers are kept for as long as the facts behind them are the same."""

from typing import Any

from service.contract.request import PlanRequest
from service.contract.validation import validate_request
from service.planning.catalogues import BuiltinCatalogues
from service.planning.engines.engine import Answer
from service.planning.kept_answers import Facts, KeptAnswers
from service.planning.planner import Planner


def request_for(model: object, **parts: Any) -> PlanRequest:
    return validate_request({"model": model, "rig": {"gpus": ["rtx-3090"]}, **parts})


def answer_to(planner: Planner, **parts: Any) -> Answer:
    return planner.answer(request_for("llama-3.2-1b:Q4_K_M", workload={"context_tokens": 1024}, **parts))


def test_a_question_asked_again_is_not_planned_again() -> None:
    """However it was spelled the first time, defaults stated or not."""
    planner = Planner(BuiltinCatalogues())
    assert answer_to(planner) is answer_to(planner, engine={"name": "llama.cpp", "n_batch": 2048})


def test_every_field_makes_another_question() -> None:
    """A kept answer is never given to a question that differs anywhere."""
    planner = Planner(BuiltinCatalogues())
    first = answer_to(planner)
    assert answer_to(planner, assumptions={"bandwidth_fraction": 0.5}) is not first
    assert answer_to(planner, engine={"n_ubatch": 256}).plan.id != first.plan.id
    assert (
        planner.answer(request_for("llama-3.2-1b:Q4_K_M", workload={"context_tokens": 1024}), alone=True) is not first
    )


def test_other_facts_forget_what_was_kept() -> None:
    """Catalogues that were read anew may hold another card under the same name."""
    kept, question = KeptAnswers(), b"question"
    facts, others = Facts.of(BuiltinCatalogues()), Facts.of(BuiltinCatalogues())
    answer = answer_to(Planner(BuiltinCatalogues()))
    kept.keep(question, answer, facts)
    assert kept.answer(question, facts) is answer
    assert kept.answer(question, others) is None
    kept.keep(b"another", answer, others)
    assert kept.answer(question, facts) is None
    assert kept.answer(question, others) is None


def test_the_answer_used_longest_ago_makes_room() -> None:
    """What is asked for again stays."""
    kept, facts = KeptAnswers(capacity=2), Facts.of(BuiltinCatalogues())
    answer = answer_to(Planner(BuiltinCatalogues()))
    kept.keep(b"a", answer, facts)
    kept.keep(b"b", answer, facts)
    assert kept.answer(b"a", facts) is answer
    kept.keep(b"c", answer, facts)
    assert [kept.answer(question, facts) is answer for question in (b"a", b"b", b"c")] == [True, False, True]


def test_files_and_addresses_are_not_kept() -> None:
    """They may hold something else the next time."""
    kept = KeptAnswers()
    assert kept.question(request_for("llama-3.2-1b:Q4_K_M"), alone=False) is not None
    assert kept.question(request_for({"path": "model.gguf"}), alone=False) is None
    assert kept.question(request_for({"url": "https://models.example/m.gguf"}), alone=False) is None
    drafted = request_for("llama-3.3-70b:Q4_K_M", engine={"draft": {"model": {"path": "draft.gguf"}}})
    assert kept.question(drafted, alone=False) is None
