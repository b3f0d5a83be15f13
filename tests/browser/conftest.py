"""A browser for the tests of a module, and pages without memory of each other.

Tests here say `pytestmark = pytest.mark.asyncio(loop_scope="module")`: the browser belongs to the module's event loop.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from playwright.async_api import Browser, Page

from tests.support.browser import browsing


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    """Headless Chromium."""
    async with browsing() as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser) -> AsyncIterator[Page]:
    """An empty tab with cookies of its own."""
    context = await browser.new_context()
    try:
        yield await context.new_page()
    finally:
        await context.close()
