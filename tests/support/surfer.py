"""A browser over real HTTP, without a screen: cookies, forms, redirects that are followed as far as is wanted."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx
from selectolax.lexbor import LexborHTMLParser, LexborNode

MOST_HOPS = 10


def cookie_of(url: str, name: str) -> str:
    """The name of a cookie of the server at `url`, by plain http: it has the port, since ports share them."""
    return f"microsub-{name}-{urlsplit(url).port}"


@dataclass
class Surfer(AbstractAsyncContextManager["Surfer"]):
    """`here` is the address that is shown, `reply` what came from there; `away` is where a redirect led that wasn't
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
        """Type in an address."""
        return await self._follow(await self.http.get(url, headers=headers))

    async def submit(self, action: str | None = None, *, without: Sequence[str] = (), **fields: Any) -> Surfer:
        """Send the form that has all these fields, and leads to a path that ends with `action`, filled in."""
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
        """What can be read."""
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
        """What the form would send as it is, buttons left out."""
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
