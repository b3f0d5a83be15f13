"""A browser for the application without a network: cookies, forms with their tokens, and origin headers.

Redirects are shown, not followed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx
from selectolax.lexbor import LexborHTMLParser, LexborNode
from starlette.types import ASGIApp

from microsub.identity.passkeys import PasskeyMessage
from tests.support.authenticator import Authenticator
from tests.support.world import World

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"


@dataclass(frozen=True)
class Shown:
    """A page as received."""

    response: httpx.Response
    tree: LexborHTMLParser = field(repr=False)

    @property
    def status(self) -> int:
        return self.response.status_code

    @property
    def location(self) -> str:
        """The target of a redirect; empty for a page."""
        return self.response.headers.get("location", "")

    @property
    def title(self) -> str:
        found = self.tree.css_first("h1")
        return " ".join(found.text().split()) if found else ""

    @property
    def text(self) -> str:
        """The visible text of the main part, with single spaces."""
        found = self.tree.css_first("main")
        return " ".join(found.text(separator=" ").split()) if found else ""

    def form(self, action: str, **having: str) -> LexborNode:
        """The form that is sent to `action`, and has these values."""
        for found in self.tree.css("form"):
            values = fields_of(found)
            if found.attributes.get("action") == action and having.items() <= values.items():
                return found
        raise AssertionError(f"no form to {action} with {having} in {self.response.text}")


class Visitor:
    """One browser. `address` is the server's, `client` the browser's own; `app` may also be a way to a real server."""

    def __init__(
        self,
        app: ASGIApp | httpx.AsyncBaseTransport,
        address: str,
        agent: str = FIREFOX,
        client: str = "127.0.0.1",
    ) -> None:
        self.address = address
        way = app if isinstance(app, httpx.AsyncBaseTransport) else httpx.ASGITransport(app, client=(client, 50000))
        self.client = httpx.AsyncClient(transport=way, base_url=address, headers={"user-agent": agent})

    @property
    def cookies(self) -> dict[str, str]:
        return dict(self.client.cookies)

    async def get(self, path: str, **headers: str) -> Shown:
        return _shown(await self.client.get(path, headers=headers))

    async def post(self, path: str, fields: Mapping[str, Any] | None = None, **headers: str) -> Shown:
        """A POST as our own pages send it, except for these headers; an empty header is left out."""
        given = {
            "origin": self.origin,
            "sec-fetch-site": "same-origin",
            **{k.replace("_", "-"): headers[k] for k in headers},
        }
        sent = {name: value for name, value in given.items() if value}
        return _shown(await self.client.post(path, data=fields or {}, headers=sent))

    async def submit(self, page: Shown, action: str, having: Mapping[str, str] | None = None, **fields: Any) -> Shown:
        """Send the page's form for `action`, with these fields filled in."""
        found = page.form(action, **(having or {}))
        assert found.attributes.get("method") == "post"
        target = urljoin(str(page.response.url), action)
        return await self.post(target, {**fields_of(found), **fields})

    async def aclose(self) -> None:
        await self.client.aclose()

    @property
    def origin(self) -> str:
        parts = urlsplit(self.address)
        return f"{parts.scheme}://{parts.netloc}"


def fields_of(form: LexborNode) -> dict[str, str]:
    """The fields of a form as a browser sends them: without unticked boxes and disabled ones."""
    found = {}
    for node in form.css("input[name]"):
        kind = node.attributes.get("type") or "text"
        if "disabled" in node.attributes:
            continue
        if kind in {"checkbox", "radio"} and "checked" not in node.attributes:
            continue
        found[node.attributes["name"] or ""] = node.attributes.get("value") or ""
    return found


def _shown(response: httpx.Response) -> Shown:
    return Shown(response, LexborHTMLParser(response.text))


ORIGIN = "https://reader.example"
SIGN_IN, BY_PASSWORD = "/sign-in", "/sign-in/local"
PASSWORD = "correct horse battery"
SESSION, DEVICES = "__Host-microsub-session", "__Host-microsub-devices"


async def begin_session(visitor: Visitor, server: World, name: str = "ann", me: str | None = None) -> str:
    """Give the browser a session, as a complete sign-in does; its cookie."""
    me, agent = f"https://{name}.example/" if me is None else me, visitor.client.headers["user-agent"]
    cookie = await server.parts.sessions.begin(name, me, f"with {name}.example", agent, server.now)
    visitor.client.cookies.set(SESSION, cookie, domain=urlsplit(visitor.address).hostname or "", path="/")
    return cookie


async def tried(visitor: Visitor, who: str = "ann", password: str = PASSWORD, path: str = SIGN_IN) -> Shown:
    """Send the form with name and password."""
    return await visitor.submit(await visitor.get(path), BY_PASSWORD, who=who, password=password)


async def options_from(visitor: Visitor, page: Shown, begin: str, **fields: str) -> dict[str, Any]:
    """The options for static/passkeys.js in the part of the page that begins there."""
    part = next(node for node in page.tree.css("[data-passkey]") if node.attributes["data-begin"] == begin)
    token = {part.attributes["data-token-field"] or "": part.attributes["data-token"]}
    shown = await visitor.post(begin, {**fields, **token})
    assert shown.status == 200, shown.text
    assert shown.response.headers["content-type"] == "application/json"
    assert shown.response.headers["cache-control"] == "no-store"
    found: dict[str, Any] = json.loads(shown.response.text)
    return found


async def with_passkey(visitor: Visitor, device: Authenticator, **lies: Any) -> Shown:
    """Sign in by passkey."""
    page = await visitor.get(SIGN_IN)
    asked = await options_from(visitor, page, "/sign-in/passkey/begin")
    answer = json.dumps(device.use(asked["options"], **lies))
    return await visitor.submit(page, "/sign-in/passkey", secret=asked["secret"], answer=answer)


async def passkey_of(server: World, user: str = "ann") -> Authenticator:
    """A device with a passkey of the user, called Stick."""
    device = Authenticator(ORIGIN)
    passkeys = server.parts.local.passkeys
    asked = await passkeys.ask_to_make(ORIGIN, user)
    await passkeys.make(ORIGIN, user, PasskeyMessage(asked.secret, device.make(asked.content)), "Stick", server.now)
    return device
