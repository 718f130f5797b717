"""Answers as Block Kit, within Slack's limits.

Source of the limits: docs.slack.dev/reference/block-kit, 2026-11.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from service.contract.problem import problem_of
from service.contract.validation import validate_request
from service.core.problems import PlanProblem
from service.shells.slack.blocks import Message, help_message, plan_message, problem_message, refusal_message, value_of
from service.shells.slack.grammar import Refusal
from service.shells.slack.modal import form_view, message_view, model_options
from service.shells.slack.parts import button, code, cut, header, link, rows, section, within
from tests.planner import builtin_planner

ORIGIN = "https://rigfit.example"
LONGEST = {"header": 150, "section": 3000, "button": 75}


def answer(model: str, *gpus: object, **parts: Any) -> Message:
    """The message about a question."""
    rig = {"gpus": list(gpus), **parts.pop("rig", {})}
    request = validate_request({"model": model, "rig": rig, **parts})
    try:
        return plan_message(request, builtin_planner().plan(request), ORIGIN)
    except PlanProblem as refused:
        return problem_message(request, problem_of(refused))


def assert_within_limits(blocks: list[dict[str, Any]], most: int = 50) -> None:
    """Assert every limit of Slack's on these blocks."""
    assert 1 <= len(blocks) <= most
    action_ids = [element["action_id"] for element in elements(blocks)]
    assert len(action_ids) == len(set(action_ids))
    for block in blocks:
        if "text" in block:
            assert 1 <= len(block["text"]["text"]) <= LONGEST[block["type"]]
        for element in block.get("elements", ()):
            if block["type"] == "context":
                assert 1 <= len(element["text"]) <= 3000
        assert len(block.get("elements", ())) <= (10 if block["type"] == "context" else 5)
    for element in elements(blocks):
        assert 1 <= len(element["text"]["text"]) <= 75
        assert len(element["action_id"]) <= 255
        assert len(element.get("value", "")) <= 2000
        assert len(element.get("url", "")) <= 3000
        assert ("value" in element) != ("url" in element)


def elements(blocks: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Every button."""
    for block in blocks:
        if block["type"] == "actions":
            yield from block["elements"]


@pytest.mark.parametrize("model", ["llama-3.3-70b", "qwen3-4b:Q8_0", "gpt-oss-120b", "deepseek-v3", "gemma-3-27b"])
@pytest.mark.parametrize(
    "gpus",
    [["2x 3090"], ["16x h100-sxm"], ["4090", "3060 12gb", "2x p40", "5090"], [], ["8x mi300x"], ["m4 max 128gb"]],
    ids=["pair", "sixteen", "mixed", "host", "amd", "apple"],
)
def test_answers_are_within_limits(model: str, gpus: list[str]) -> None:
    """Plans that fit and do not, large and small, and refusals."""
    for workload in ({}, {"context_tokens": 1_000_000, "parallel": 16}):
        message = answer(model, *gpus, workload=workload, rig={"psu": {"rated_w": 700}})
        assert_within_limits(message.blocks)
        assert 1 <= len(message.text) <= 3000


def test_long_questions_are_within_limits() -> None:
    """Fifteen cards described by figures and 200 overrides are more than buttons keep, and that is said."""
    card = {"gpu": {"name": "lab <card> & co " * 8, "vram_bytes": 25769803776, "bandwidth_bytes_per_s": 9.36e11}}
    overrides = [rf"blk\.{number}\.ffn_(up|down|gate)\.weight=CPU" for number in range(200)]
    message = answer("llama-3.3-70b", *[card] * 15, engine={"override_tensor": overrides, "n_gpu_layers": "all"})
    assert_within_limits(message.blocks)
    text = json.dumps(message.blocks)
    assert "Slack has no room" in text
    assert "(cut; all of it is on the page)" in text
    assert "<card>" not in json.dumps([block for block in message.blocks if block["type"] == "section"])


def test_answer_says_what_matters() -> None:
    """Verdict, bars of both cards, speed with range and basis, power, warnings and command are there."""
    message = answer("llama-3.3-70b", "2x 3090", workload={"context_tokens": 16384}, rig={"psu": {"rated_w": 500}})
    text = "\n".join(block["text"]["text"] for block in message.blocks if "text" in block)
    for part in ("*Fits*", "0 rtx-3090", "1 rtx-3090", "█", "tok/s", "limited by", "*Power*", "llama-server", "```"):
        assert part in text
    assert any(mark in text for mark in (":warning:", ":x:"))


def test_speed_of_what_does_not_fit_is_conditional() -> None:
    """Nobody takes a speed for granted that the cards have no room for."""
    texts = {
        tokens: json.dumps(answer("llama-3.3-70b", "3090", workload={"context_tokens": tokens},
                                  engine={"n_gpu_layers": "all"}).blocks)
        for tokens in (8192, 16384)
    }  # fmt: skip
    assert all("If it fitted" in text and "GiB short" in text for text in texts.values())
    assert "If it fitted" not in json.dumps(answer("qwen3-4b", "3090").blocks)


def test_buttons_ask_other_questions() -> None:
    """Contexts around the one asked, the largest, runners-up, the channel and the page."""
    message = answer("llama-3.3-70b", "2x 3090", workload={"context_tokens": 16384})
    labels = [element["text"]["text"] for element in elements(message.blocks)]
    assert labels[:5] == ["4k", "8k", "32k", "64k", "Max context"]
    assert labels[-2:] == ["Share to channel", "Open page"]
    assert any(label.startswith("Or: ") for label in labels)


def test_shared_answer_names_who_shared_it() -> None:
    """In the channel there are no buttons that would change what others see."""
    request = validate_request({"model": "llama-3.3-70b", "rig": {"gpus": ["2x 3090"]}})
    message = plan_message(request, builtin_planner().plan(request), ORIGIN, shared_by="U7")
    assert [element["action_id"] for element in elements(message.blocks)] == ["open"]
    assert "<@U7>" in json.dumps(message.blocks)


def test_planner_refusals_offer_what_it_suggests() -> None:
    """A quant that is missing is a button with the whole question."""
    message = answer("llama-3.3-70b:Q9", "2x 3090")
    first = next(elements(message.blocks))
    assert first["action_id"].startswith("ask_")
    assert "gpus=2x+" in first["value"]


def test_other_messages_are_within_limits() -> None:
    """Help, refusals with long lines, the form and answers in its place."""
    long = Refusal(detail="<" * 5000, corrections=tuple(f"{number} " + "x" * 900 for number in range(30)))
    for message in (help_message(), refusal_message(long)):
        assert_within_limits(message.blocks)
        assert_within_limits(message_view(message, "C1")["blocks"], most=100)
    assert len(form_view("C1")["blocks"]) <= 100
    options = model_options(builtin_planner(), "")
    assert 1 <= len(options) <= 100
    assert all(len(option["text"]["text"]) <= 75 and len(option["value"]) <= 150 for option in options)


def test_parts_say_what_they_cut() -> None:
    """Nothing is shortened silently, and no character is shown half."""
    assert cut("a" * 10, 10) == "a" * 10
    assert cut("ab&amp;cd", 6, "…") == "ab…"
    assert len(header("x" * 200)["text"]["text"]) == 150
    assert section("x" * 4000)["text"]["text"].endswith("(cut; all of it is on the page)")
    assert code("``` <x>")["text"]["text"] == "```''' &lt;x&gt;```"
    assert len(code("<" * 3000, "Title")["text"]["text"]) <= 3000
    assert button("x", "a", "v" * 2001) is None
    assert link("x", "a", "u" * 3001) is None
    many = rows([button(str(number), f"a{number}", "v") for number in range(30)])
    assert [len(block["elements"]) for block in many] == [5, 5, 5, 5, 5, 1]
    assert "5 buttons are left out" in json.dumps(many)
    assert "3 parts of the answer are left out" in json.dumps(within([section("x")] * 52)[-1])
    assert len(within([section("x")] * 52)) == 50


def test_value_keeps_the_question() -> None:
    """What a button sends back is the question's address."""
    request = validate_request({"model": "llama-3.3-70b", "rig": {"gpus": ["2x 3090"]}})
    assert value_of(request) == "model=llama-3.3-70b&gpus=2x+3090"
