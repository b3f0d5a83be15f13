"""One browser for all tests of a test process, and pages with separate cookies and storage.

Tests here set `pytestmark = pytest.mark.asyncio(loop_scope="session")`: the browser belongs to that event loop.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright, expect

from tests.browser.instances import Instances, running_instances
from tests.browser.tab import Tab, tab
from tests.support.waiting import PATIENCE


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Headless Chromium."""
    expect.set_options(timeout=PATIENCE * 1000)  # five seconds are too few on a busy machine
    async with browsing() as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def here(browser: Browser) -> AsyncIterator[Tab]:
    """An empty tab with cookies of its own, in which the browser must not report any error."""
    async with tab(browser) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Instances]:
    """Two instances of this server, a provider, apps and pages."""
    async with running_instances(tmp_path_factory.mktemp) as made:
        yield made


WHOLE = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
NAMES = ("chromium-headless-shell", *WHOLE)
"""The headless shell uses half of the processor time for the same pages, and shows no notifications."""
_ELSEWHERE = (Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"),)
_FLAGS = (
    "--no-sandbox",  # which doesn't start for root; all loaded pages are ours
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    # Otherwise each address in a tab has a process of its own, which takes a tenth of a second to start.
    "--renderer-process-limit=1",
    "--disable-site-isolation-trials",
    # Names don't resolve, whatever the machine's resolver or proxy does.
    "--no-proxy-server",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)


def chromium(names: Sequence[str] = NAMES) -> str | None:
    """The browser to use: `CHROMIUM` names it, else the first one on PATH. `scripts/programs` searches the same way."""
    if named := os.environ.get("CHROMIUM"):
        return named
    found = (shutil.which(name) for name in names)
    return next((path for path in found if path), None) or next((str(p) for p in _ELSEWHERE if p.exists()), None)


@asynccontextmanager
async def browsing(names: Sequence[str] = NAMES) -> AsyncIterator[Browser]:
    """A browser with a profile of its own; skips the test, with the reason, if there is no browser."""
    executable = chromium(names)
    if executable is None:
        pytest.skip("no Chromium or Chrome on PATH; install one, or name it by CHROMIUM=/path/to/it")
    async with async_playwright() as playwright:
        # Chromium has no warnings for features missing in headless mode, so only a failed start needs a message.
        browser = await playwright.chromium.launch(executable_path=executable, args=list(_FLAGS))
        try:
            yield browser
        finally:
            await browser.close()
