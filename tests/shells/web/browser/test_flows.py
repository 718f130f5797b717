"""What people do on the page, done in a real browser."""

import re
from urllib.parse import urlencode

from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from tests.shells.web.browser.workbench import (
    EXAMPLE,
    HOSTILE,
    ask,
    asked,
    choose,
    expect_headline,
    expect_settled,
    verdict,
)


def test_the_first_visit_shows_an_answer(page: Page) -> None:
    """The page opens with an example, its verdict first and its chart after it."""
    page.goto("/")
    expect(verdict(page)).to_have_text("Fits")
    expect(page.locator(".device:not(.host)")).to_have_count(2)
    expect(page.locator("svg.chart:visible")).to_have_count(1)
    expect(page).to_have_title(re.compile("^Fits: llama-3.3-70b Q4_K_M on 2. rtx-3090"))


def test_choosing_a_model_by_keyboard(page: Page) -> None:
    """A model is searched for, taken with the arrow keys, and offered in its quantisations."""
    ask(page, **EXAMPLE)
    model = page.get_by_role("combobox", name="Name")
    model.focus()
    model.press_sequentially("qwen3-32")
    expect(page.get_by_role("option", name="qwen3-32b")).to_be_visible()
    model.press("ArrowDown")
    expect(model).to_have_attribute("aria-activedescendant", re.compile("model-options-0"))
    model.press("Enter")
    expect(model).to_have_value("qwen3-32b:Q4_K_M")
    expect_headline(page, "qwen3-32b Q4_K_M on 2x rtx-3090")
    page.get_by_label("Quantisation").select_option("qwen3-32b:Q8_0")
    expect_headline(page, "qwen3-32b Q8_0 on")
    assert asked(page)["model"] == ["qwen3-32b:Q8_0"]


def test_a_list_of_names_closes_without_a_choice(page: Page) -> None:
    """Escape and leaving the field close the list and keep what was typed."""
    ask(page, **EXAMPLE)
    model = page.get_by_role("combobox", name="Name")
    model.click()
    options = page.get_by_role("listbox", name="Name")
    expect(options).to_be_visible()
    model.press("Escape")
    expect(options).to_be_hidden()
    model.press("ArrowDown")
    expect(options).to_be_visible()
    model.press("Tab")
    expect(options).to_be_hidden()
    expect(model).to_have_value(EXAMPLE["model"])


def test_mixed_cards(page: Page) -> None:
    """Cards of several kinds are added, counted, changed and removed."""
    ask(page, **EXAMPLE)
    page.get_by_role("button", name="Add a card", exact=False).first.click()
    row = page.locator("#cards > li").nth(1)
    choose(row.get_by_role("combobox"), "5090", "rtx-5090")
    expect_headline(page, "2x rtx-3090 + rtx-5090")
    row.get_by_text("Memory, power and slot").click()
    row.get_by_label("Free memory").fill("20")
    row.get_by_label("Power limit").fill("400")
    expect(page.locator(".device").nth(2)).to_contain_text("of 20.00 GiB")
    assert asked(page)["gpus"] == [
        "2x rtx-3090", '{"gpu":"rtx-5090","count":1,"free_bytes":21474836480,"power_limit_w":400}'
    ]  # fmt: skip
    page.locator("#cards > li").first.get_by_role("button", name="Remove this card").click()
    expect_headline(page, "on rtx-5090")
    expect(page.locator("#cards > li")).to_have_count(1)
    page.get_by_label("How many").fill("3")
    expect_headline(page, "on 3x rtx-5090")


def test_no_cards_is_a_plan_for_the_host(page: Page) -> None:
    """Without cards the host alone is planned, and the form says so."""
    ask(page, model="qwen3-32b:Q4_K_M", gpus="rtx-5090", context_tokens="4096")
    page.get_by_role("button", name="Remove this card").click()
    expect_headline(page, "on the host alone")
    expect(page.get_by_text("the plan is for the host alone")).to_be_visible()


def test_a_card_of_ones_own(page: Page) -> None:
    """A card that is in no catalogue is described by its figures, whatever it is called."""
    ask(page, model="qwen3-32b:Q4_K_M", context_tokens="4096")
    page.get_by_role("button", name="Add a card by its own figures").click()
    page.get_by_label("Name of the card").fill(HOSTILE)
    page.get_by_label("Memory", exact=False).first.fill("32")
    page.get_by_label("Bandwidth", exact=False).first.fill("1792")
    expect_headline(page, HOSTILE)
    expect(page.locator(".device").first).to_contain_text(HOSTILE)
    expect(page.locator("img")).to_have_count(0)


def test_the_context_and_the_largest_that_fits(page: Page) -> None:
    """A context is stated, or left to be the largest."""
    ask(page, **EXAMPLE)
    page.get_by_role("spinbutton", name="Context").fill("4096")
    expect_headline(page, "at 4,096 tokens")
    page.get_by_label("the largest that fits").check()
    expect_headline(page, "at 22,016 tokens")
    assert "context_tokens" not in asked(page)
    page.get_by_label("the largest that fits").uncheck()
    expect_headline(page, "at 4,096 tokens")


def test_settings_of_the_engine(page: Page) -> None:
    """Settings change the command, in the unit and the words of the contract."""
    ask(page, **EXAMPLE)
    page.locator("summary", has_text="Settings of llama.cpp").click()
    page.get_by_label("cache type k").first.select_option("q8_0")
    page.get_by_label("cache type v").first.select_option("q8_0")
    expect(page.locator("#command-run")).to_contain_text("-ctk q8_0 -ctv q8_0")
    page.get_by_text("Host, power supply and links").click()
    page.get_by_label("Main memory").fill("64")
    page.wait_for_url(re.compile("ram_bytes=68719476736"))
    assert asked(page)["cache_type_v"] == ["q8_0"]


def test_copying_the_command(page: Page) -> None:
    """The button puts exactly the command on the clipboard, and says so."""
    ask(page, **EXAMPLE)
    page.get_by_role("button", name="Copy the command").click()
    expect(page.locator("[data-copy=command-run]")).to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == page.locator("#command-run").inner_text()
    assert copied.startswith("llama-server -m llama-3.3-70b-Q4_K_M.gguf")


def test_sharing_reloading_and_going_back(page: Page, context: BrowserContext) -> None:
    """An address holds the whole question: for others, after a reload, and on the way back."""
    ask(page, **EXAMPLE)
    page.get_by_label("Streams at once").fill("4")
    expect_headline(page, "4 streams")
    page.get_by_label("How many").fill("3")
    expect_headline(page, "on 3x rtx-3090")
    page.get_by_role("button", name="Copy the link").click()
    link = page.evaluate("navigator.clipboard.readText()")
    assert link == page.url
    page.reload()
    expect_headline(page, "on 3x rtx-3090 at 16,384 tokens of context, 4 streams")
    other = context.new_page()
    other.goto(link)
    expect(other.get_by_label("Streams at once")).to_have_value("4")
    assert other.locator("#answer h1").inner_text() == verdict(page).inner_text()
    page.go_back()
    expect_headline(page, "on 2x rtx-3090 at 16,384 tokens of context, 4 streams")
    expect(page.get_by_label("How many")).to_have_value("2")
    page.go_back()
    expect(page.locator(".headline")).not_to_contain_text("streams")
    expect(page.get_by_label("Streams at once")).to_have_value("")
    page.go_forward()
    expect_headline(page, "4 streams")


def test_saving_a_plan(page: Page) -> None:
    """A plan is kept, found under its address, printed without the form, and asked again."""
    ask(page, **EXAMPLE)
    page.get_by_role("button", name="Save this plan").click()
    page.get_by_role("link", name="Open the saved plan").click()
    page.wait_for_url("**/plans/pln_*")
    expect(verdict(page)).to_have_text("Fits")
    expect(page.locator(".explanation")).to_be_visible()
    page.emulate_media(media="print")
    for screen_only in page.locator("button, nav, .actions").all():
        expect(screen_only).to_be_hidden()
    expect(page.locator(".explanation")).to_be_visible()
    assert page.pdf().startswith(b"%PDF")
    page.emulate_media(media="screen")
    page.get_by_role("link", name="Ask this again").click()
    expect(page.get_by_role("combobox", name="Name")).to_have_value(EXAMPLE["model"])
    assert asked(page) == {name: [value] for name, value in EXAMPLE.items()}


def test_a_problem_and_its_way_out(page: Page) -> None:
    """What cannot be answered is said where the answer would be, and a suggestion answers it."""
    ask(page, **EXAMPLE)
    card = page.get_by_role("combobox", name="Card")
    card.fill("A100")
    expect(verdict(page)).to_have_text("Unknown GPU")
    expect(card).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#announcement")).to_contain_text("ambiguous")
    card.press("Escape")
    page.get_by_role("link", name="a100-sxm4-80gb").click()
    expect_headline(page, "on 2x a100-sxm4-80gb")
    expect(page.get_by_role("combobox", name="Card")).to_have_value("a100-sxm4-80gb")
    expect(page.get_by_role("combobox", name="Card")).not_to_have_attribute("aria-invalid", "true")
    expect(page.locator("#answer")).to_be_focused()


def test_taking_an_alternative(page: Page) -> None:
    """An alternative is taken with a click: the answer is then the one that it promised."""
    ask(page, model="llama-3.3-70b:Q4_K_M", gpus=["2x rtx-3090", "rtx-5090"], context_tokens="32768")
    other = page.locator(".alternatives > li").first
    promised = [number.get_attribute("value") for number in other.locator("data").all()]
    other.get_by_role("link", name="Use").click()
    page.wait_for_url(re.compile("split_mode=|tensor_split="))
    expect_settled(page)
    assert page.locator(".speeds tbody data").first.get_attribute("value") == promised[0]
    assert page.locator(".figures data").nth(2).get_attribute("value") == promised[2]
    expect(page.locator("[data-engine='llama.cpp'] details")).to_have_attribute("open", "")
    page.go_back()
    expect(page.locator(".alternatives > li").first.locator("data").first).to_have_attribute("value", promised[0] or "")


def test_the_form_works_without_scripts(browser: Browser, site: str) -> None:
    """Without JavaScript the form is sent by hand, with its cards as they are."""
    plain = browser.new_context(base_url=site, java_script_enabled=False)
    page = plain.new_page()
    page.goto(f"/?{urlencode(EXAMPLE | {'ram_bytes': '68719476736'})}")
    page.get_by_role("spinbutton", name="Context").fill("4096")
    page.get_by_role("button", name="Ask").click()
    expect_headline(page, "on 2x rtx-3090 at 4,096 tokens")
    assert asked(page)["ram_bytes"] == ["68719476736"]
    plain.close()


def test_answers_that_are_no_longer_asked_for_are_not_shown(page: Page) -> None:
    """A slow answer to an earlier question never replaces that to the latest."""
    ask(page, **EXAMPLE)

    def slow(route: Route) -> None:
        if "context_tokens=1024" in route.request.url:
            page.wait_for_timeout(700)
        route.continue_()

    page.route("**/answer?*", slow)
    context = page.get_by_role("spinbutton", name="Context")
    context.fill("1024")
    page.wait_for_timeout(350)
    context.fill("2048")
    expect_headline(page, "at 2,048 tokens")
    page.wait_for_timeout(800)
    expect_headline(page, "at 2,048 tokens")


def test_a_service_that_does_not_answer(page: Page, complaints: list[str]) -> None:
    """A failure is said, and the next answer takes its place."""
    ask(page, **EXAMPLE)
    page.route("**/answer?*", lambda route: route.abort())
    page.get_by_role("spinbutton", name="Context").fill("4096")
    expect(page.get_by_role("alert")).to_contain_text("did not answer")
    page.unroute("**/answer?*")
    page.get_by_role("spinbutton", name="Context").fill("8192")
    expect_headline(page, "at 8,192 tokens")
    expect(page.get_by_role("alert")).to_have_count(0)
    expect_settled(page)
    complaints.clear()


def test_changes_are_announced(page: Page) -> None:
    """A screen reader is told the new verdict without moving the focus."""
    ask(page, **EXAMPLE)
    context = page.get_by_role("spinbutton", name="Context")
    context.fill("200000")
    expect(page.get_by_role("status").first).to_be_attached()
    expect(page.locator("#announcement")).to_contain_text("Fits with host offload, ")
    expect(context).to_be_focused()
