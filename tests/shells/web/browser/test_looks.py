"""How the page behaves on narrow screens, in the dark, and for those who do not see it."""

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Page, expect

from tests.shells.web.browser.conftest import NARROW, WIDE
from tests.shells.web.browser.workbench import EXAMPLE, HOSTILE, ask

OWN_CARD = f'{{"gpu":{{"name":"{HOSTILE}","vram_bytes":25769803776,"bandwidth_bytes_per_s":9e11}},"count":2}}'
STATES: dict[str, dict[str, object]] = {
    "fits": {**EXAMPLE},
    "offloaded": {"model": "qwen3-235b-a22b:Q4_K_M", "gpus": ["2x rtx-3090", "rtx-5090"], "context_tokens": "65536"},
    "does not fit": {"model": "llama-3.3-70b", "gpus": OWN_CARD, "context_tokens": "131072", "n_gpu_layers": "all"},
    "problem": {"model": "llama-3.3-70", "gpus": "rtx-3090"},
}


def open_everything(page: Page) -> None:
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")


@pytest.mark.parametrize(
    ("state", "scheme", "size"),
    [
        ("fits", "light", WIDE),
        ("fits", "dark", NARROW),
        ("offloaded", "dark", WIDE),
        ("does not fit", "light", NARROW),
        ("problem", "dark", NARROW),
    ],
)
def test_nothing_bars_anyone(page: Page, state: str, scheme: str, size: tuple[int, int]) -> None:
    """The accessibility checker finds nothing to complain of, with everything opened."""
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce")
    page.set_viewport_size({"width": size[0], "height": size[1]})
    ask(page, **STATES[state])
    open_everything(page)
    results = Axe().run(page)
    assert results.violations_count == 0, results.generate_report()


@pytest.mark.parametrize("state", STATES)
def test_a_narrow_screen_scrolls_one_way(page: Page, state: str) -> None:
    """At 360 pixels nothing is wider than the screen, not even long names."""
    page.set_viewport_size({"width": NARROW[0], "height": NARROW[1]})
    ask(page, **STATES[state])
    open_everything(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW[0]
    expect(page.locator(".peek")).to_be_visible()


def test_a_saved_plan_bars_nobody(page: Page) -> None:
    """The page of a kept plan passes the same checks, on a narrow screen as well."""
    ask(page, **EXAMPLE)
    page.get_by_role("button", name="Save this plan").click()
    page.get_by_role("link", name="Open the saved plan").click()
    expect(page.locator(".explanation")).to_be_visible()
    page.set_viewport_size({"width": NARROW[0], "height": NARROW[1]})
    results = Axe().run(page)
    assert results.violations_count == 0, results.generate_report()
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW[0]


def test_the_page_follows_the_reader_into_the_dark(page: Page) -> None:
    """The colours are those that the reader's system asks for."""
    page.goto("/")
    shades = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        shades.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert shades == ["rgb(246, 246, 243)", "rgb(20, 22, 25)"]


def test_the_answer_is_reached_without_a_mouse(page: Page) -> None:
    """The first stop of the tab key leads past the form to the answer."""
    ask(page, **EXAMPLE)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the answer")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#answer")).to_be_focused()
