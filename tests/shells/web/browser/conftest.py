"""A real Chromium, headless, on a real server.

The browser is one that is installed: the one that RIGFIT_TEST_CHROMIUM names, or the first on the path. It lives as
long as the tests of this folder run, since its driver keeps an event loop running in their thread.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect, sync_playwright

from tests.databases import Databases
from tests.marking import mark_folder
from tests.servers import served

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
WIDE = (1280, 900)
NARROW = (360, 740)
# how long something takes says how busy the machine is, not whether it happens
PATIENCE_MS = 30_000
expect.set_options(timeout=PATIENCE_MS)


def chromium_path() -> str:
    """Where the browser is; raises FileNotFoundError where there is none."""
    found = os.environ.get("RIGFIT_TEST_CHROMIUM") or next(
        (path for name in NAMES if (path := shutil.which(name))), None
    )
    if found is None:
        raise FileNotFoundError("no Chromium: script/chromium installs one, -m 'not slow and not browser' does without")
    return found


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs the browser, and keep it together in one process."""
    mark_folder(items, Path(__file__).parent, "browser")


@pytest.fixture(scope="package")
def site(sqlite: Databases) -> Iterator[str]:
    """Address of a server on a seeded database."""
    with served(sqlite) as address:
        yield address


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """The browser; as root it runs without its sandbox, which it could not set up."""
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium_path(), args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def context(browser: Browser, site: str) -> Iterator[BrowserContext]:
    """A fresh profile, which may use the clipboard and reaches nothing but the server."""
    context = browser.new_context(base_url=site, viewport={"width": WIDE[0], "height": WIDE[1]})
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=site)
    context.set_default_timeout(PATIENCE_MS)
    yield context
    context.close()


@pytest.fixture
def complaints() -> list[str]:
    """What a page complains about; a test that provokes complaints clears it."""
    return []


@pytest.fixture
def page(context: BrowserContext, site: str, complaints: list[str]) -> Iterator[Page]:
    """A page that must not complain, fail or ask anyone else."""
    page = context.new_page()

    def heard(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            complaints.append(f"{message.type}: {message.text}")

    def asked(request: Request) -> None:
        if not request.url.startswith(f"{site}/"):
            complaints.append(f"asked elsewhere: {request.url}")

    page.on("console", heard)
    page.on("request", asked)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
    yield page
    assert complaints == []
