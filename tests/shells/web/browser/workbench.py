"""What the tests do on the page, in its own words."""

import re
from urllib.parse import parse_qs, urlencode, urlsplit

from playwright.sync_api import Locator, Page, expect

EXAMPLE = {"model": "llama-3.3-70b:Q4_K_M", "gpus": "2x rtx-3090", "context_tokens": "16384"}
HOSTILE = "<img src=x onerror=alert(1)>" + "W" * 60


def ask(page: Page, **parameters: object) -> None:
    """Open the address of a question and wait for its answer and its chart."""
    page.goto(f"/?{urlencode(parameters, doseq=True)}")
    expect_settled(page)


def expect_settled(page: Page) -> None:
    """Wait until nothing is being asked."""
    expect(page.locator("[aria-busy]")).to_have_count(0)
    page.wait_for_load_state("networkidle")


def asked(page: Page) -> dict[str, list[str]]:
    """The question in the address."""
    return parse_qs(urlsplit(page.url).query)


def verdict(page: Page) -> Locator:
    """The first thing that an answer says."""
    return page.locator("#answer h1")


def expect_headline(page: Page, words: str) -> None:
    """Wait until the answer is about this; "2x" stands for the sign of multiplication."""
    expect(page.locator("#answer .headline")).to_contain_text(re.sub(r"\b(\d)x ", "\\1\N{MULTIPLICATION SIGN} ", words))


def choose(box: Locator, text: str, option: str) -> None:
    """Type into a combobox and take one of what it suggests."""
    box.fill(text)
    box.page.get_by_role("option", name=option).first.click()
    expect(box).to_have_attribute("aria-expanded", "false")
