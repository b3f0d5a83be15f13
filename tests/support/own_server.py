"""Users who sign in at an instance of ours with a password and allow apps on its pages, by HTTP without a screen."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl, urljoin, urlsplit

import httpx
from selectolax.lexbor import LexborHTMLParser, LexborNode

from tests.support.process import Installation
from tests.support.web import Answer, Asked, Publisher, html_reply, publisher

PASSWORD = "four words beside the harbour"


def links(url: str, *, microsub: str | None = None) -> dict[str, str]:
    """The links of a page whose provider is the instance at `url`, for newer and older apps."""
    return {
        "indieauth_metadata": f"{url}/.well-known/oauth-authorization-server",
        "authorization_endpoint": f"{url}/auth",
        "token_endpoint": f"{url}/token",
        "microsub": microsub or f"{url}/microsub",
        "micropub": f"{url}/micropub",
    }


async def enrolled(installed: Installation, url: str, *users: str) -> None:
    """Give the users the password, with one-time links of the command line."""
    printed = await installed.run_each(*(f"user invite {user}" for user in users))
    links = [next(word for word in out.split() if "#" in word) for out in printed]
    await asyncio.gather(*(_use(url, link) for link in links))


async def _use(url: str, link: str) -> None:
    async with Surfer() as surfer:
        await surfer.goto(f"{url}{urlsplit(link).path}")
        await surfer.submit(code=urlsplit(link).fragment, password=PASSWORD, again=PASSWORD)
        assert surfer.title == "Welcome", surfer.text


async def sign_in(surfer: Surfer, user: str, password: str = PASSWORD) -> Surfer:
    """Sign in on any page that requires it, with the web address or its link, and return to the target."""
    return await surfer.submit("/sign-in/local", who=user, password=password)


MOST_HOPS = 10


def cookie_of(url: str, name: str) -> str:
    """The name of a cookie of the http server at `url`; it contains the port, because ports share cookies."""
    return f"microsub-{name}-{urlsplit(url).port}"


@dataclass
class Surfer(AbstractAsyncContextManager["Surfer"]):
    """A browser. `here` is the shown address, `reply` its response; `away` is the target of a redirect that wasn't
    followed, because it begins with `stops_at`.
    """

    stops_at: str = "\n"
    http: httpx.AsyncClient = field(default_factory=lambda: httpx.AsyncClient(timeout=60))
    here: str = ""
    reply: httpx.Response = field(default_factory=lambda: httpx.Response(204))
    away: str = ""
    hops: list[str] = field(default_factory=list)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.http.aclose()

    async def goto(self, url: str, **headers: str) -> Surfer:
        """Open an address."""
        return await self._follow(await self.http.get(url, headers=headers))

    async def submit(self, action: str | None = None, *, without: Sequence[str] = (), **fields: Any) -> Surfer:
        """Fill in and send the form that has all these fields, and whose path ends with `action`."""
        form = self._form(action, fields, without)
        target = urljoin(self.here, form.attributes.get("action") or self.here)
        values: dict[str, Any] = {**self.fields(form), **fields}
        for name in without:
            values.pop(name, None)
        own = urlsplit(self.here)
        headers = {"Origin": f"{own.scheme}://{own.netloc}", "Sec-Fetch-Site": "same-origin"}
        return await self._follow(await self.http.post(target, data=values, headers=headers))

    @property
    def text(self) -> str:
        """The visible text."""
        body = LexborHTMLParser(self.reply.text).body
        return " ".join(body.text(separator=" ").split()) if body else ""

    @property
    def title(self) -> str:
        """The first heading."""
        found = LexborHTMLParser(self.reply.text).css_first("h1")
        return " ".join(found.text().split()) if found else ""

    @property
    def forms(self) -> list[LexborNode]:
        return LexborHTMLParser(self.reply.text).css("form")

    def fields(self, form: LexborNode) -> dict[str, Any]:
        """The values that the form would send unchanged, without buttons."""
        found: dict[str, Any] = {}
        for node in form.css("input[name]"):
            name, kind = node.attributes["name"] or "", node.attributes.get("type") or "text"
            if kind in {"checkbox", "radio"}:
                if "checked" in node.attributes:
                    found[name] = [*found.get(name, []), node.attributes.get("value") or "on"]
            else:
                found[name] = node.attributes.get("value") or ""
        return found

    def _form(self, action: str | None, fields: dict[str, Any], without: Sequence[str]) -> LexborNode:
        for form in self.forms:
            names = {node.attributes.get("name") for node in form.css("input, button, select, textarea")}
            leads = urlsplit(urljoin(self.here, form.attributes.get("action") or "")).path
            if (action is None or leads.endswith(action)) and {*fields, *without} <= names:
                return form
        raise AssertionError(f"no form to {action} with {sorted(fields)} at {self.here}: {self.text[:500]}")

    async def _follow(self, reply: httpx.Response) -> Surfer:
        self.away, self.hops = "", []
        for _ in range(MOST_HOPS):
            self.here, self.reply = str(reply.url), reply
            if reply.status_code not in {301, 302, 303, 307, 308}:
                return self
            location = urljoin(self.here, reply.headers["location"])
            self.hops.append(location)
            if location.startswith(self.stops_at):
                self.away = location
                return self
            reply = await self.http.get(location)
        raise AssertionError(f"too many redirects: {self.hops}")


@dataclass
class AppSite:
    """A server on loopback. `asked` is every request; `returned` are the parameters of returning browsers."""

    asked: list[Asked] = field(default_factory=list)
    pages: dict[str, Answer] = field(default_factory=dict)
    listening: Publisher = field(init=False)

    def home(self, name: str, *, redirects: tuple[str, ...] = (), document: bool = False) -> str:
        """The client id of an app with this name: a page with an h-app, or a JSON document."""
        path = f"/{name.replace(' ', '-').lower()}/"
        url = f"{self.listening.base}{path}"
        self.pages[f"{path}back"] = html_reply(f"<title>{name}</title><p>Welcome back to {name}</p>")
        if document:
            about = {"client_id": url, "client_name": name, "client_uri": url, "logo_uri": f"{url}logo.png"}
            about |= {"redirect_uris": [f"{url}back", *redirects]}
            self.pages[path] = Answer(json.dumps(about).encode(), 200, [("Content-Type", "application/json")])
        else:
            links = "".join(f'<link rel="redirect_uri" href="{uri}">' for uri in redirects)
            card = (
                f'<div class="h-app"><img class="u-logo" src="logo.png" alt=""><a class="u-url p-name" href="{path}">'
            )
            self.pages[path] = html_reply(f"<!doctype html><title>{name}</title>{links}{card}{name}</a></div>")
        return url

    def profile(self, name: str, *, in_header: bool = False, **rels: str) -> str:
        """A static profile page at /<name>/, with a link for each rel (`_` stands for `-`)."""
        path, url = f"/{name}/", f"{self.listening.base}/{name}/"
        named = [(rel.replace("indieauth_", "indieauth-"), address) for rel, address in rels.items()]
        links = "".join(f'<link rel="{rel}" href="{address}">\n' for rel, address in named)
        header = ("Link", ", ".join(f'<{address}>; rel="{rel}"' for rel, address in named))
        text = f'<!doctype html><title>{name}</title>\n{"" if in_header else links}<p class="h-card">{name}</p>'
        self.pages[path] = html_reply(text, 200, *([header] if in_header else []))
        return url

    @property
    def returned(self) -> list[dict[str, str]]:
        return [request.query for request in self.asked if request.path.endswith("/back")]

    async def answer(self, request: Asked) -> Answer:
        self.asked.append(request)
        return self.pages.get(request.path, Answer(b"not here", 404))


@asynccontextmanager
async def app_site(host: str = "127.0.0.1") -> AsyncIterator[AppSite]:
    """A running server for apps on a free port."""
    made = AppSite()
    async with publisher(made.answer, host=host) as made.listening:
        yield made


@dataclass
class Approver:
    """A user of the instance at `url`, who decides on the consent page. Pass it to an app as its `person`.

    `grants` are the scopes that are ticked, None for all; `allows` is the decision; `channel` is the one for posting, a
    new one by default, if the page offers it. `seen` are the texts of the pages.
    """

    site: AppSite
    user: str
    grants: Sequence[str] | None = None
    allows: bool = True
    channel: str = "+"
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
        offered = LexborHTMLParser(self.surfer.reply.text).css("input[name=grant]")
        grants = [box.attributes["value"] or "" for box in offered] if self.grants is None else list(self.grants)
        chosen: dict[str, Any] = {"grant": grants} if grants else {}
        if 'name="channel"' in self.surfer.reply.text:
            chosen["channel"] = self.channel
        await self.surfer.submit("/auth/consent", decision="allow" if self.allows else "deny", **chosen)
        assert self.surfer.away, self.surfer.text
        return self.surfer.away
