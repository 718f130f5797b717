"""What the page shows is what the interface answers, for questions drawn at random."""

import random
from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import APIRequestContext, Page

from service.contract.query_text import query_of_request
from service.contract.validation import validate_request

QUESTIONS = 50
SEED = 20261130
# the largest models take seconds to plan for the first time, and any model longer the first time than afterwards
MOST_PARAMETERS, MODELS = 150e9, 15
GIB = 1024**3

# goes to an address as the page itself does, and reads what it shows then
SHOWN = """async (address) => {
  const before = document.querySelector("#answer");
  history.pushState(null, "", address);
  dispatchEvent(new PopStateEvent("popstate"));
  while (document.querySelector("#answer") === before) await new Promise(requestAnimationFrame);
  const numbers = (place) => [...place.querySelectorAll("data")].map((each) => [Number(each.value), each.textContent]);
  const text = (selector) => document.querySelector(selector)?.textContent ?? null;
  const all = (selector, read) => [...document.querySelectorAll(selector)].map(read);
  return {
    verdict: text("#answer h1 [data-value]"),
    problem: text(".problem h1"),
    cards: all(".device:not(.host)", (card) => [card.querySelector("strong").textContent, numbers(card)]),
    host: all(".device.host", numbers),
    speeds: all(".speeds tbody tr", numbers),
    command: text("#command-run"),
    verify: text("#command-verify"),
    notes: all(".notes li span:last-child", (note) => note.textContent),
    alternatives: all(".alternatives strong", (label) => label.textContent),
    steps: all(".explanation li", (step) => step.textContent),
  };
}"""


def questions(models: list[str], cards: list[str]) -> list[dict[str, Any]]:
    """Questions about any model on any cards, some of which cannot be answered."""
    draw = random.Random(SEED)  # noqa: S311 - questions, not secrets
    drawn = draw.sample(models, MODELS)
    return [
        {
            "model": draw.choice(drawn),
            "rig": {"gpus": [f"{draw.randint(1, 3)}x {card}" for card in draw.sample(cards, draw.randint(1, 2))]},
            "workload": {"context_tokens": draw.choice([None, 4096, 20000, 65536]), "parallel": draw.choice([1, 1, 4])},
            "engine": draw.choice([{}, {}, {"cache_type_k": "q8_0"}, {"n_gpu_layers": "all"}]),
        }
        for _ in range(QUESTIONS)
    ]


def expected(plan: dict[str, Any]) -> dict[str, Any]:
    """What the page must show of a plan, with the text of every number."""
    verdicts = {"fits": "Fits", "fits_with_host_offload": "Fits with host offload", "does_not_fit": "Does not fit"}
    speed = plan["speed"] or {}
    rows = ["decode_tokens_per_s"]
    rows += ["aggregate_decode_tokens_per_s"] if plan["workload"]["parallel"] > 1 else []
    rows += [row for row in ("prefill_tokens_per_s", "ttft_s") if speed.get(row)]
    return {
        "verdict": verdicts[plan["verdict"]],
        "problem": None,
        "cards": [
            [card["gpu"], [gib(card["headroom_bytes"]), *bytes_of(card), gib(card["usable_bytes"])]]
            for card in plan["devices"]
        ],
        "host": [bytes_of(plan["host"])] if plan["host"]["total_bytes"] else [],
        "speeds": [[shown(row, speed[row][end]) for end in ("mid", "low", "high")] for row in rows] if speed else [],
        "command": plan["command"]["text"],
        "verify": plan["command"]["verify"],
        "notes": [note["message"] for note in [*plan["warnings"], *plan["advice"]]],
        "alternatives": [other["label"] for other in plan["alternatives"]],
        "steps": plan["explanation"],
    }


def bytes_of(place: dict[str, Any]) -> list[list[Any]]:
    """Every part that is not empty, and their sum."""
    parts = [place.get(f"{part}_bytes", 0) for part in ("weights", "kv", "compute", "overhead", "companion")]
    rest = place["total_bytes"] - sum(parts)
    return [gib(part) for part in [*parts, rest] if part > 0] + [gib(place["total_bytes"])]


def gib(amount_bytes: int) -> list[Any]:
    return [amount_bytes, f"{abs(amount_bytes) / GIB:,.2f}"]


def shown(row: str, value: float) -> list[Any]:
    """A rate or a time with three digits."""
    if row == "ttft_s":
        return [value, f"{three_digits(value * 1e3)} ms" if value < 1 else f"{three_digits(value)} s"]
    return [value, three_digits(value)]


def three_digits(value: float) -> str:
    """Three significant digits, or every one before the point."""
    exponent = int(f"{value:e}".partition("e")[2])
    return f"{value:,.{max(0, 2 - exponent)}f}"


def test_the_page_shows_what_the_interface_answers(page: Page) -> None:
    """For 50 random questions every number and every sentence of the page is that of the plan."""
    # the chart is asked for beside the answer and is none of its numbers
    page.route("**/answer/chart*", lambda route: route.fulfill(body="", content_type="text/html"))
    api: APIRequestContext = page.request
    listed = [model for model in api.get("/models").json() if model["kind"] == "model"]
    models = [model["quants"][0]["reference"] for model in listed if model["parameters"] < MOST_PARAMETERS]
    cards = [card["slug"] for card in api.get("/gpus").json() if card["memory_bandwidth_bytes_per_s"]]
    answered = 0
    page.goto("/")
    for question in questions(models, cards):
        answer = api.post("/plan", data=question)
        found = page.evaluate(SHOWN, f"/?{urlencode(query_of_request(validate_request(question)))}")
        if answer.ok:
            answered += 1
            assert found == expected(answer.json()), question
        else:
            assert found["problem"] == answer.json()["title"], question
    assert answered > QUESTIONS / 2
