"""The common parts of all reader apps: signing in by the code flow, and reading. `reader_apps.py` has the apps."""

from __future__ import annotations

import hashlib
import re
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

import httpx
from selectolax.lexbor import LexborHTMLParser

Person = Callable[[str], Awaitable[str]]


class AppBreaks(AssertionError):
    """The app can't continue, with the reason."""


@dataclass
class Signed:
    """A signed-in user: the token reply, and the endpoints for reading and, if there is one, for posting."""

    app: App
    me: str
    scope: str
    token: str
    microsub: str
    given: dict[str, Any]
    micropub: str = ""
    stored: dict[str, str] = field(default_factory=dict)

    async def read(self, channel: str | None = None) -> list[dict[str, Any]]:
        """The first page of a channel, as this app requests it; by default the first channel except notifications."""
        return await self.app.read(self, channel)

    async def buttons(self) -> set[str]:
        """Which of `like`, `repost` and `reply` the app offers with a post, after it has asked the posting endpoint."""
        if not self.micropub:
            return set()
        headers = {"Authorization": f"Bearer {self.token}", "Accept": "application/json"}
        return self.app.offered(await self.app.http.get(self.micropub, params={"q": "config"}, headers=headers))

    async def like(self, url: str) -> str:
        """Like a post; returns the address of the like."""
        headers = {"Authorization": f"Bearer {self.token}", "Accept": "application/json"}
        fields = {"h": "entry", "like-of": url}
        return self.app.posted(await self.app.http.post(self.micropub, data=fields, headers=headers))

    async def mark_read(self, channel: str, entry: str) -> None:
        """Mark one post as read, as this app does."""
        fields = {"action": "timeline", "method": "mark_read", "channel": channel, "entry": entry}
        self.app.checked(await self.app.post(self, fields))


class App:
    """The common behaviour of all apps; differences are class attributes and overridden steps."""

    name: ClassVar[str] = "app"
    scopes: ClassVar[str] = "read"
    pkce: ClassVar[bool] = False
    wants: ClassVar[tuple[str, ...]] = ("microsub", "authorization_endpoint", "token_endpoint")
    """The rels that the page must have."""
    reads_back: ClassVar[tuple[str, ...]] = ("code", "state")
    """The parameters that the app requires in the redirect back."""
    needs: ClassVar[tuple[str, ...]] = ("access_token", "me", "scope")
    """The members that the app requires in the token endpoint's reply."""

    def __init__(
        self, http: httpx.AsyncClient, home: str = "https://reader.example/", scopes: str | None = None
    ) -> None:
        self.http = http
        self.client_id = home
        self.redirect_uri = urljoin(home, "back")
        self.asks = self.scopes if scopes is None else scopes

    # --- Signing in

    async def sign_in(self, profile: str, person: Person) -> Signed:
        """The whole flow: discovery, the user's consent, redemption."""
        found = await self.discover(profile)
        missing = [rel for rel in self.wants if rel not in found]
        if missing:
            raise AppBreaks(f"{self.name} finds no {', '.join(missing)} at {profile}")
        state, verifier = secrets.token_urlsafe(12), secrets.token_urlsafe(48)
        asked = {"response_type": "code", "me": self.writes(profile), "client_id": self.client_id, "state": state}
        asked |= {"redirect_uri": self.redirect_uri, "scope": self.asks}
        if self.pkce:
            asked |= {"code_challenge": _challenge(verifier), "code_challenge_method": "S256"}
        joint = "&" if urlsplit(found["authorization_endpoint"]).query else "?"
        back = await person(f"{found['authorization_endpoint']}{joint}{urlencode(asked)}")
        told = self.came_back(back, state, found)
        found = await self.look_again(told, asked["me"], found)
        form = {"grant_type": "authorization_code", "code": told["code"], "client_id": self.client_id}
        form |= {"redirect_uri": self.redirect_uri, **({"code_verifier": verifier} if self.pkce else {})}
        given = await self.redeem(found["token_endpoint"], form, profile)
        lacking = [name for name in self.needs if not isinstance(given.get(name), str)]
        if lacking:
            raise AppBreaks(f"{self.name} finds no {', '.join(lacking)} in {sorted(given)}")
        await self.accept(given, profile, found)
        granted = given["access_token"], found["microsub"], given, found.get("micropub", "")
        return Signed(self, given.get("me", ""), given.get("scope", ""), *granted)

    def writes(self, profile: str) -> str:
        """The user's address as this app sends it."""
        return profile

    async def look_again(self, told: Mapping[str, str], me: str, found: dict[str, str]) -> dict[str, str]:
        """The endpoints from here on; `told` are the parameters of the redirect back, `me` is the address that was
        sent.
        """
        return found

    async def accept(self, given: Mapping[str, Any], profile: str, found: Mapping[str, str]) -> None:
        """Check the reply of the token endpoint, as this app does."""

    async def discover(self, profile: str) -> dict[str, str]:
        """The endpoints by rel."""
        reply = await self.http.get(profile, follow_redirects=True)
        return found_rels(reply)

    def came_back(self, back: str, state: str, found: Mapping[str, str]) -> dict[str, str]:
        """The parameters of the URL with which the browser returned."""
        if not back.startswith(self.redirect_uri):
            raise AppBreaks(f"the browser went to {back}, not to {self.redirect_uri}")
        answer = dict(parse_qsl(urlsplit(back).query))
        if "state" in self.reads_back and answer.get("state") != state:
            raise AppBreaks(f"{self.name} doesn't know the state in {back}")
        if "code" not in answer:
            raise AppBreaks(f"no code: {answer.get('error')} {answer.get('error_description', '')}")
        lacking = [name for name in self.reads_back if not answer.get(name)]
        if lacking:
            raise AppBreaks(f"{self.name} finds no {', '.join(lacking)} in {back}")
        return answer

    async def redeem(self, endpoint: str, form: Mapping[str, str], profile: str) -> dict[str, Any]:
        """The reply of the token endpoint, as JSON or as a form."""
        return self.given(await self.http.post(endpoint, data=dict(form), headers={"Accept": "application/json"}))

    def given(self, reply: httpx.Response) -> dict[str, Any]:
        if reply.status_code != 200:
            raise AppBreaks(f"{self.name} redeems in vain: {reply.status_code} {reply.text[:200]}")
        if "json" in reply.headers.get("content-type", ""):
            return dict(reply.json())
        return dict(parse_qsl(reply.text))

    # --- Reading

    async def get(self, signed: Signed, parameters: Mapping[str, str]) -> httpx.Response:
        headers = {"Authorization": f"Bearer {signed.token}"}
        return await self.http.get(self.endpoint(signed), params=dict(parameters), headers=headers)

    async def post(self, signed: Signed, parameters: Mapping[str, str]) -> httpx.Response:
        headers = {"Authorization": f"Bearer {signed.token}"}
        return await self.http.post(self.endpoint(signed), data=dict(parameters), headers=headers)

    def endpoint(self, signed: Signed) -> str:
        return signed.microsub

    def checked(self, reply: httpx.Response) -> dict[str, Any]:
        if reply.status_code == 401:
            raise AppBreaks(f"{self.name} signs the person out: {reply.text[:200]}")
        if reply.status_code != 200:
            raise AppBreaks(f"{self.name} shows an error: {reply.status_code} {reply.text[:200]}")
        found: dict[str, Any] = reply.json()
        return found

    def page(self, channel: str) -> dict[str, str]:
        return {"action": "timeline", "channel": channel}

    async def read(self, signed: Signed, channel: str | None = None) -> list[dict[str, Any]]:
        """Request the channels, then a page."""
        if channel is None:
            channels = self.checked(await self.get(signed, {"action": "channels"}))["channels"]
            others = [found["uid"] for found in channels if found["uid"] != "notifications"]
            channel = str(others[0] if others else channels[0]["uid"])
        return self.items(self.checked(await self.get(signed, self.page(channel))))

    def items(self, page: Mapping[str, Any]) -> list[dict[str, Any]]:
        if not isinstance(page.get("items"), list) or not isinstance(page.get("paging"), dict):
            raise AppBreaks(f"{self.name} crashes without items and paging: {sorted(page)}")
        return list(page["items"])

    # --- Posting

    def offered(self, reply: httpx.Response) -> set[str]:
        """The buttons after a reply to `q=config`."""
        return set(BUTTONS)

    def posted(self, reply: httpx.Response) -> str:
        """The address in the reply to a post."""
        if reply.status_code not in {201, 202} or "location" not in reply.headers:
            raise AppBreaks(f"{self.name} can't post: {reply.status_code} {reply.text[:200]}")
        return reply.headers["location"]


BUTTONS = frozenset({"like", "repost", "reply"})


def same_host(one: str, other: str) -> bool:
    return urlsplit(one).hostname == urlsplit(other).hostname


def _challenge(verifier: str) -> str:
    return urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def found_rels(reply: httpx.Response) -> dict[str, str]:
    """The first URL of each rel, HTTP headers before the page."""
    found = header_rels(reply)
    for rel, url in tags(reply, exact=False):
        found.setdefault(rel, url)
    return found


def header_rels(reply: httpx.Response) -> dict[str, str]:
    """The rels and URLs of a reply's Link headers."""
    found: dict[str, str] = {}
    for url, parameters in re.findall(r"<([^>]*)>((?:\s*;[^,]*)*)", ", ".join(reply.headers.get_list("link"))):
        named = re.search(r';\s*rel="?([^";]*)"?', parameters)
        for rel in named[1].split() if named else []:
            found.setdefault(rel, urljoin(str(reply.url), url))
    return found


def tags(reply: httpx.Response, *, exact: bool) -> list[tuple[str, str]]:
    """Pairs of rel and URL in document order; `exact` treats several values in a rel as one."""
    if reply.request.method == "HEAD":
        return []
    found = []
    for node in LexborHTMLParser(reply.text).css("link[href], a[href]"):
        rel, url = node.attributes.get("rel") or "", urljoin(str(reply.url), node.attributes["href"] or "")
        found += [(name, url) for name in ([rel] if exact else rel.split())]
    return found
