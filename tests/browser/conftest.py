"""One browser for all tests of a test process, and pages without memory of each other.

Tests here say `pytestmark = pytest.mark.asyncio(loop_scope="session")`: the browser belongs to that event loop.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from playwright.async_api import Browser, Page

from tests.support.browser import browsing
from tests.support.waiting import PATIENCE


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Headless Chromium."""
    async with browsing() as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def page(browser: Browser) -> AsyncIterator[Page]:
    """An empty tab with cookies of its own."""
    context = await browser.new_context()
    context.set_default_timeout(PATIENCE * 1000)
    try:
        yield await context.new_page()
    finally:
        await context.close()
