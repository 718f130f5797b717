"""A kept plan, for a program and for a browser."""

import pytest
from starlette.testclient import TestClient

from tests.shells.rest.test_problems import expect_problem
from tests.shells.web.markup import document

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
QUESTION = {"model": "llama-3.3-70b:Q4_K_M", "rig": {"gpus": ["2x rtx-3090"]}, "workload": {"context_tokens": 16384}}


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        (BROWSER, "text/html"),
        ("text/html", "text/html"),
        ("*/*", "application/json"),
        ("application/json", "application/json"),
        ("text/html;q=0.4, application/json", "application/json"),
        ("text/html;q=nonsense, application/json;q=0.5", "text/html"),
        ("", "application/json"),
    ],
)
def test_a_browser_is_given_a_page(client: TestClient, accept: str, media_type: str) -> None:
    """Who prefers HTML gets the page, everyone else the plan as JSON, and caches are told of it."""
    location = client.post("/plans", json=QUESTION).headers["location"]
    answer = client.get(location, headers={"accept": accept})
    assert answer.headers["content-type"].partition(";")[0] == media_type
    assert answer.headers["vary"] == "Accept"


def test_the_page_of_a_kept_plan_shows_it_and_asks_again(client: TestClient) -> None:
    """It has the verdict, every card, the explanation in full and a link to the question."""
    kept = client.post("/plans", json=QUESTION)
    page = document(client.get(kept.headers["location"], headers={"accept": BROWSER}).text)
    assert page.one("span", data_value="verdict").text == "Fits"
    assert len(page.all("li", class_="device")) == 2
    assert [step.text for step in page.one("ol", class_="explanation").all("li")] == kept.json()["explanation"]
    again = page.one("a", class_="button").attributes["href"]
    assert client.get(again.replace("/?", "/plan?")).json() == kept.json()


def test_a_plan_that_was_not_kept_is_a_page_too(client: TestClient) -> None:
    """A browser is told in a page what a program is told in a problem."""
    answer = client.get("/plans/pln_0", headers={"accept": BROWSER})
    assert answer.status_code == 404
    assert "no saved plan" in document(answer.text).one("article", class_="problem").text
    expect_problem(client.get("/plans/pln_0"), "not-found")
