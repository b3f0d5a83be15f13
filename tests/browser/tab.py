"""A tab for people's actions, which records errors: scripts, policies, failed pictures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from playwright.async_api import Browser, BrowserContext, Page, Response, Route

from tests.support.waiting import PATIENCE


@dataclass
class Tab:
    """`page` is Playwright's; `troubles` are the browser's errors; `headers` are those of our pages."""

    context: BrowserContext
    page: Page
    troubles: list[str] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Waits as patiently as all other tests."""
        self.context.set_default_timeout(PATIENCE * 1000)

    async def fill(self, **fields: str) -> None:
        """Fills in the visible fields by their names."""
        for name, value in fields.items():
            await self.page.fill(f'[name="{name}"]:visible', value)

    async def press(self, button: str) -> None:
        """Presses the button of that name and waits until the next page is loaded."""
        async with self.page.expect_navigation(wait_until="load"):
            await self.page.get_by_role("button", name=button, exact=True).first.click()

    async def intercepts(self) -> None:
        """Prepares `page.route`: Playwright sees nothing that service workers fetch, and a browser begins late to ask.

        Call it before a page is opened.
        """
        await self.context.add_init_script("delete Navigator.prototype.serviceWorker")
        await self.context.route("**/no-such-address", lambda route: route.abort())

    async def holds(self, address: str) -> asyncio.Event:
        """Holds what the page asks for at addresses like this one, until the event is set."""
        told = asyncio.Event()

        async def later(route: Route) -> None:
            await told.wait()
            await route.continue_()

        await self.page.route(address, later)
        return told

    async def keys(self, *names: str) -> None:
        """Presses keys, none of which waits for the one before: the page forgets the first of a sequence in a while."""
        await asyncio.gather(*map(self.page.keyboard.press, names))

    async def title(self) -> str:
        """The page's first heading."""
        return " ".join((await self.page.inner_text("h1")).split())

    async def text(self) -> str:
        """All visible text."""
        return " ".join((await self.page.inner_text("body")).split())

    async def cookies(self) -> dict[str, str]:
        """The cookies of all sites, by name."""
        return {cookie["name"]: cookie["value"] for cookie in await self.context.cookies()}

    async def readable_cookies(self) -> str:
        """The cookies that a script on the page could read."""
        return str(await self.page.evaluate("document.cookie"))


@asynccontextmanager
async def tab(browser: Browser, *, scripts: bool = True) -> AsyncIterator[Tab]:
    """A tab with cookies of its own. Raises an error at its end if the browser reported one in it."""
    context = await browser.new_context(java_script_enabled=scripts)
    made = Tab(context, await context.new_page())
    made.page.on("console", lambda m: made.troubles.append(m.text) if m.type in {"error", "warning"} else None)
    made.page.on("pageerror", lambda error: made.troubles.append(str(error)))
    made.page.on("response", lambda response: _note(made, response))
    try:
        yield made
        # The console reports every refusal by a server as an error too; those are intended.
        assert not [text for text in made.troubles if "Failed to load resource" not in text], made.troubles
    finally:
        await context.close()


def _note(made: Tab, response: Response) -> None:
    if response.request.resource_type == "document":
        made.addresses.append(response.url)
