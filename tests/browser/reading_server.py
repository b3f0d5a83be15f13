"""A server whose users read in the browser, as `microsub serve` starts it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.async_api import APIRequestContext, Page

from tests.browser.tab import Tab
from tests.support.own_server import PASSWORD, enrolled
from tests.support.process import Installation, installation
from tests.support.waiting import wait_until


@dataclass
class ReadingServer:
    """A running server at `url`, by the name localhost."""

    own: Installation
    url: str
    cookies: dict[str, Any] = field(default_factory=dict, kw_only=True)

    async def sign_in(self, here: Tab, user: str, path: str = "/", view: str = "") -> Page:
        """That user's tab at `path`; the first one signs in, and others have the same session.

        The channel is shown in that view, which is chosen without the browser: each page costs it a third of a second.
        """
        if user in self.cookies:
            await here.context.add_cookies(self.cookies[user])
            if not view:
                await here.page.goto(self.url + path)
        else:
            await here.page.goto(f"{self.url}/sign-in?next={path}")
            await here.fill(who=user, password=PASSWORD)
            await here.press("Sign in")
            self.cookies[user] = await here.context.cookies()
        if view:
            await self._choose(here.context.request, path, view)
            await here.page.goto(self.url + path)
        assert here.page.url == self.url + path
        return here.page

    async def _choose(self, asking: APIRequestContext, path: str, view: str) -> None:
        """Sends what the button of that name sends."""
        _, _, form = (await (await asking.get(self.url + path)).text()).partition('<form class="looks"')
        sent = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', form.partition("<span")[0]))
        reply = await asking.post(f"{self.url}/view", form={**sent, "view": view.lower()}, max_redirects=0)
        assert reply.status == 303


@asynccontextmanager
async def reading_server(
    folder: Path,
    users: Mapping[str, Any],
    *enrolling: str,
    polls: int = 0,
    settings: Mapping[str, Any] | None = None,
    **env: str,
) -> AsyncIterator[ReadingServer]:
    """A server for these users. Those in `enrolling` have the password, and this many feeds have been polled."""
    document = {"users": dict(users), "settings": {"polling": {"host_interval": 0}, **(settings or {})}}
    async with installation(folder, document, **env) as own:
        url = (await own.serve("serve", "--show-token")).replace("127.0.0.1", "localhost")
        await enrolled(own, url, *enrolling)
        await wait_until(lambda: own.log.count('"feed polled"') >= polls)
        yield ReadingServer(own, url)
