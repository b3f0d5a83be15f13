"""Two instances of this server with their users, a provider of another kind, apps, and pages of people."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import httpx

from tests.browser.tab import Tab
from tests.support.own_server import PASSWORD, AppSite, app_site, enrolled, links
from tests.support.polling import dated, rss
from tests.support.process import Installation, installation
from tests.support.provider import Provider, Variant, provider
from tests.support.reader_apps import App
from tests.support.waiting import wait_until
from tests.support.web import publisher

QUICK = {"polling": {"host_interval": 0}, "identity": {"token_cache": 1}}
BOTH = "127.0.0.0/8,::1/128"
PAGES = ("alice", "beth", "carol", "dora", "dave", "eve", "frank", "sue")


@dataclass
class Instances:
    """`url` is the own instance by the name localhost, so that it is another site than apps, pages and `other` are.

    Its users have a page at `apps`: alice and beth have a password, and so does erin, who has no page. Beth reads at
    the other instance, as bee. Ann has a page and an account at `provider`.
    """

    http: httpx.AsyncClient
    apps: AppSite
    provider: Provider
    own: Installation
    url: str
    other_url: str

    def app(self, kind: type[App]) -> App:
        return kind(self.http, self.apps.home(kind.name))

    def profile(self, user: str) -> str:
        return f"{self.apps.listening.base}/{user}/"

    async def link(self, user: str) -> str:
        """The link with which the admin invites a user."""
        code, out, err = await self.own.run("user", "invite", user, "--base-url", self.url)
        assert code == 0, err
        return out.strip()

    def person(self, here: Tab, user: str = "alice", **more: object) -> Person:
        """A person with a page at that tab."""
        return Person(here, user, **more)  # type: ignore[arg-type]


@dataclass
class Person:
    """A person at a tab who decides on the consent page; an app gets it as its `person`."""

    here: Tab
    user: str
    without: tuple[str, ...] = ()
    decision: str = "Allow"
    seen: list[str] = field(default_factory=list)

    async def __call__(self, url: str) -> str:
        await self.here.page.goto(url)
        if "/sign-in" in self.here.page.url:
            await self.here.fill(who=self.user, password=PASSWORD)
            await self.here.press("Sign in")
        self.seen.append(await self.here.text())
        for scope in self.without:
            await self.here.page.uncheck(f'input[name=grant][value="{scope}"]')
        await self.here.press(self.decision)
        assert self.here.page.url.startswith(dict(parse_qsl(urlsplit(url).query))["redirect_uri"])
        return self.here.page.url


@asynccontextmanager
async def running_instances(folder: Callable[[str], Path]) -> AsyncIterator[Instances]:
    """All of them; the instances have polled their feed."""
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        http = await enter(httpx.AsyncClient(timeout=60, limits=httpx.Limits(keepalive_expiry=1)))
        apps, feeds = await enter(app_site()), await enter(publisher())
        others = await enter(provider(Variant(consent="form", fetches=True)))
        channels = [{"uid": "home", "feeds": [feeds.serve_document("/feed", rss(dated(3)))]}]
        users = {name: {"me": f"{apps.listening.base}/{name}/", "channels": channels} for name in PAGES}
        users |= {"erin": {"channels": channels}, "ann": {"me": others.person("ann").me, "channels": channels}}
        documents = {"own": users, "other": {"bee": users["beth"]}}
        own, other = [
            await enter(
                installation(folder(name), {"users": users, "settings": QUICK}, MICROSUB_ALLOW_PRIVATE_NETWORKS=BOTH)
            )
            for name, users in documents.items()
        ]
        own_url, other_url = await asyncio.gather(own.serve(), other.serve())
        url = own_url.replace("127.0.0.1", "localhost")
        for name in PAGES:
            apps.profile(name, **links(url, microsub=f"{other_url}/microsub/bee" if name == "beth" else None))
        await enrolled(own, own_url, "alice", "beth", "erin")
        await wait_until(lambda: '"feed polled"' in own.log and '"feed polled"' in other.log)
        yield Instances(http, apps, others, own, url, other_url)
