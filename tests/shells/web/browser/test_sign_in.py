"""A browser at a service where reading needs a key."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from service.planning.access.keys import make_key
from tests.databases import Databases, migrate_and_seed, opened
from tests.servers import running, wait_until_ready

QUESTION = "/?model=llama-3.1-8b%3AQ4_K_M&gpus=rtx-3090"


@pytest.fixture(scope="module")
def closed_site(sqlite: Databases) -> Iterator[tuple[str, str]]:
    """Address of a server that answers nobody without a key, and a key."""
    url = sqlite.copy_of("seeded", migrate_and_seed)
    with opened(url) as database:
        key = make_key(database, "reader", ["read"]).text
    with running(RIGFIT_DATABASE_URL=url, RIGFIT_REQUIRE_KEY_TO_READ="true") as service:
        wait_until_ready(service.process, f"{service.address}/readyz")
        yield service.address, key


def test_a_browser_gets_in_with_a_key(browser: Browser, closed_site: tuple[str, str]) -> None:
    """It is asked for one, told that another is wrong, and led to the question it had, which is answered."""
    address, key = closed_site
    context = browser.new_context()
    try:
        page = context.new_page()
        page.goto(f"{address}{QUESTION}")
        page.get_by_label("API key").fill("rgf_wrong")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_contain_text("unknown, expired or revoked")
        page.get_by_label("API key").fill(key)
        page.get_by_role("button", name="Sign in").click()
        expect(page).to_have_url(f"{address}{QUESTION}")
        expect(page.locator("#answer")).to_contain_text("Fits")
        assert key not in page.evaluate("document.cookie")
    finally:
        context.close()
