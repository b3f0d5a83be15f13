"""People who sign in at an instance of ours with a password and let apps in on its pages, by HTTP without a screen."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

from tests.support.app_site import AppSite
from tests.support.process import Installation
from tests.support.surfer import Surfer

PASSWORD = "four words beside the harbour"


def links(url: str, user: str | None = None, *, microsub: str | None = None) -> dict[str, str]:
    """What the page of somebody names whose provider is the instance at `url`, for newer and older apps alike."""
    endpoint = microsub or (f"{url}/microsub/{user}" if user else f"{url}/microsub")
    return {
        "indieauth_metadata": f"{url}/.well-known/oauth-authorization-server",
        "authorization_endpoint": f"{url}/auth",
        "token_endpoint": f"{url}/token",
        "microsub": endpoint,
        "micropub": f"{url}/micropub",
    }


async def enrolled(installed: Installation, url: str, *users: str) -> None:
    """Give the users the password, by the one-time links that the command line makes."""
    printed = await installed.run_each(*(f"user invite {user}" for user in users))
    links = [next(word for word in out.split() if "#" in word) for out in printed]
    await asyncio.gather(*(_use(url, link) for link in links))


async def _use(url: str, link: str, password: str = PASSWORD) -> None:
    async with Surfer() as surfer:
        await surfer.goto(f"{url}{urlsplit(link).path}")
        await surfer.submit(code=urlsplit(link).fragment, password=password, again=password)
        assert surfer.title == "Your account", surfer.text


async def sign_in(surfer: Surfer, user: str, password: str = PASSWORD) -> Surfer:
    """From any page that asks for a sign-in, with the own web address or the link to it, to where one was going."""
    return await surfer.submit("/sign-in/local", who=user, password=password)


@dataclass
class Visitor:
    """A person at the instance at `url`, who decides on the page of consent. Give it to an app as its `person`.

    `grants` are the scopes that they leave ticked, all for None; `allows` whether they let the app in at all. `seen` is
    what they read there.
    """

    site: AppSite
    user: str
    grants: Sequence[str] | None = None
    allows: bool = True
    surfer: Surfer = field(default_factory=Surfer)
    seen: list[str] = field(default_factory=list)

    async def __call__(self, url: str) -> str:
        self.surfer.stops_at = dict(parse_qsl(urlsplit(url).query))["redirect_uri"]
        await self.surfer.goto(url)
        if "/sign-in" in self.surfer.here:
            await sign_in(self.surfer, self.user)
        self.seen.append(self.surfer.text)
        if self.surfer.reply.status_code != 200:
            raise AssertionError(f"no page of consent: {self.surfer.here} {self.surfer.text}")
        chosen = {} if self.grants is None else {"grant": list(self.grants)}
        await self.surfer.submit("/auth/consent", decision="allow" if self.allows else "deny", **chosen)
        assert self.surfer.away, self.surfer.text
        return self.surfer.away
