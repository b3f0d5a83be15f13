"""The provider's pages: profile pages, the consent page, the error page."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Literal
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

import httpx
from selectolax.lexbor import LexborHTMLParser

from tests.support.web import Answer, html_reply


@dataclass(frozen=True)
class Variant:
    """The behaviour of the provider; the docstring of `provider.py` explains each value."""

    discovery: Literal["metadata", "older", "both"] = "metadata"
    links: Literal["header", "html", "both", "separate"] = "html"
    joined: bool = False
    relative: bool = False
    pkce: Literal["required", "optional", "ignored"] = "required"
    iss: bool = True
    replies: Literal["json", "form"] = "json"
    check: Literal["introspection", "older", "both"] = "introspection"
    authorized: Literal["token", "secret", "nothing"] = "token"
    lifetime: int | None = 3600
    consent: Literal["auto", "form"] = "auto"
    fetches: bool = False
    twice: bool = False
    caching: str | None = None

    @classmethod
    def older(cls, **other: Any) -> Variant:
        """A provider of around 2016: two rels, no metadata, no PKCE, no `iss`, no expiry, forms, checks by GET."""
        values: dict[str, Any] = {
            **{"discovery": "older", "pkce": "ignored", "iss": False, "replies": "form", "check": "older"},
            "lifetime": None,
        }
        return cls(**{**values, **other})

    @classmethod
    def lenient(cls, **other: Any) -> Variant:
        """A typical current provider: both methods of discovery and of checking, PKCE optional."""
        values: dict[str, Any] = {"discovery": "both", "pkce": "optional", "check": "both"}
        return cls(**{**values, **other})


def rels(variant: Variant, person: Person, base: str) -> list[tuple[str, str]]:
    """The links of a profile, as pairs of rel and URL."""
    start = "" if variant.relative else base
    found = []
    if variant.discovery != "older":
        found.append(("indieauth-metadata", f"{start}/.well-known/oauth-authorization-server"))
    if variant.discovery != "metadata":
        found += [("authorization_endpoint", f"{start}/auth"), ("token_endpoint", f"{start}/token")]
    if person.microsub:
        found.append(("microsub", person.microsub))
    if person.micropub:
        found.append(("micropub", person.micropub))
    return [(f"{rel} x-{rel}" if variant.joined else rel, url) for rel, url in found]


def profile_reply(variant: Variant, person: Person, base: str) -> Answer:
    """The profile page of a person."""
    named = rels(variant, person, base)
    headers: list[tuple[str, str]] = []
    values = [f'<{url}>; rel="{rel}"' for rel, url in named]
    if variant.links in {"header", "both"}:
        headers.append(("Link", ", ".join(values)))
    elif variant.links == "separate":
        headers += [("Link", value) for value in values]
    if variant.caching:
        headers.append(("Cache-Control", variant.caching))
    links = ""
    if variant.links in {"html", "both"}:
        links = "".join(f'<link rel="{escape(rel)}" href="{escape(url)}">\n' for rel, url in named)
    name = escape(person.name.title())
    card = f'<p class="h-card"><a class="u-url p-name" rel="me" href="{escape(person.me)}">{name}</a></p>'
    return html_reply(f"<!doctype html><meta charset=utf-8><title>{name}</title>\n{links}{card}", 200, *headers)


def consent_page(ticket: str, client: Client, scope: Sequence[str], me: str) -> Answer:
    """The page on which a user signs in, chooses scopes, and allows or denies."""
    boxes = "".join(
        f'<label><input type="checkbox" name="scope" value="{escape(s)}" checked> {escape(s)}</label>\n' for s in scope
    )
    return html_reply(
        "<!doctype html><meta charset=utf-8><title>Allow?</title>"
        f"<h1>{escape(client.name or client.id)} asks to act for you</h1><p>{escape(client.id)}</p>"
        f'<form method="post" action="/consent"><input type="hidden" name="ticket" value="{ticket}">'
        f'<label>Name <input name="name"></label><label>Password <input type="password" name="password"></label>{boxes}'
        '<button name="decision" value="allow">Allow</button><button name="decision" value="deny">Deny</button>'
        f"</form><p>Signing in as {escape(me)}</p>",
        200,
        ("Cache-Control", "no-store"),
    )


def problem_page(text: str, status: int = 400) -> Answer:
    """An error page for the user, for errors that must not be sent to the client."""
    return html_reply(f"<!doctype html><meta charset=utf-8><title>Problem</title><p>{escape(text)}</p>", status)


@dataclass(frozen=True)
class Fault:
    """A fault of one endpoint, for `times` requests (None: until `end_faults`).

    `status`, `body`, `content_type` and `headers` replace or extend the reply; `padding` appends that many bytes to the
    body; `hang` never answers; `wait` answers when the event is set; `drop` closes the connection without a reply;
    `location` redirects there (empty: to the same address). `change` sets values of a JSON object, of the metadata, or
    of the redirect's query; None removes one.
    """

    status: int | None = None
    body: bytes | None = None
    content_type: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    padding: int = 0
    hang: bool = False
    wait: asyncio.Event | None = None
    drop: bool = False
    location: str | None = None
    change: Mapping[str, Any] = field(default_factory=dict)
    times: int | None = None


@dataclass(frozen=True)
class Person:
    """A user with an account here. `me` is the profile URL in the provider's replies."""

    name: str
    me: str
    password: str
    microsub: str | None = None
    micropub: str | None = None

    @property
    def profile(self) -> dict[str, str]:
        return {"name": self.name.title(), "url": self.me, "photo": f"{self.me}photo.jpg"}


@dataclass(frozen=True)
class Asking:
    """An authorization request without a decision yet."""

    client: Client
    redirect_uri: str
    state: str | None
    scope: tuple[str, ...]
    challenge: str | None


@dataclass
class Code:
    """The content of a code; `uses` counts its redemptions."""

    person: Person
    asking: Asking
    scope: tuple[str, ...]
    expires: float
    uses: int = 0


@dataclass
class Token:
    """An issued access token."""

    person: Person
    client: str
    scope: tuple[str, ...]
    expires: float | None
    code: str
    revoked: bool = False


def changed(reply: Answer, fault: Fault) -> Answer:
    """The reply with the fault applied, if the fault changes the reply."""
    headers = list(reply.headers)
    body = reply.body
    if fault.change and 300 <= reply.status < 400:
        headers = [(name, _relocated(value, fault.change) if name == "Location" else value) for name, value in headers]
    elif fault.change and _is_json(reply):
        kept = json.loads(body) | fault.change
        body = json.dumps({name: value for name, value in kept.items() if value is not None}).encode()
    if fault.content_type is not None:
        headers = [(n, v) for n, v in headers if n != "Content-Type"] + [("Content-Type", fault.content_type)]
    body = (fault.body if fault.body is not None else body) + b" " * fault.padding
    status = fault.status or reply.status
    return Answer(body, status, [*headers, *fault.headers])


def _relocated(location: str, change: Mapping[str, Any]) -> str:
    before, _, query = location.partition("?")
    values = dict(parse_qsl(query, keep_blank_values=True)) | change
    return f"{before}?{urlencode({name: value for name, value in values.items() if value is not None})}"


def _is_json(reply: Answer) -> bool:
    return ("Content-Type", "application/json") in reply.headers


@dataclass(frozen=True)
class Client:
    """A client by its id, with its published metadata."""

    id: str
    name: str = ""
    redirect_uris: tuple[str, ...] = ()

    def allows(self, redirect_uri: str) -> bool:
        """Whether this redirect address is allowed: the id's scheme, host and port, an address that the client
        publishes, or loopback for a client that publishes none.
        """
        ours, theirs = urlsplit(self.id), urlsplit(redirect_uri)
        if not self.redirect_uris and (theirs.scheme, theirs.hostname, theirs.path) == ("http", "127.0.0.1", "/"):
            return True
        same = (ours.scheme, ours.netloc) == (theirs.scheme, theirs.netloc) and bool(theirs.netloc)
        return redirect_uri in self.redirect_uris or (same and not theirs.fragment)


async def fetched_client(client: str) -> Client:
    """The metadata at a client's id: a JSON document, or a page with redirect_uri links; empty if there is neither."""
    async with httpx.AsyncClient(timeout=60, follow_redirects=False) as http:
        try:
            reply = await http.get(client, headers={"Accept": "application/json, text/html;q=0.9"})
        except httpx.HTTPError:
            return Client(client)
    if reply.status_code != 200:
        return Client(client)
    if reply.headers.get("content-type", "").partition(";")[0].strip() == "application/json":
        return _from_document(client, reply.json())
    page = LexborHTMLParser(reply.text)
    linked = [link["url"] for link in reply.links.values() if link.get("rel") == "redirect_uri"]
    linked += [node.attributes.get("href") or "" for node in page.css('[rel~="redirect_uri"]')]
    title = page.css_first("title")
    return Client(client, title.text().strip() if title else "", tuple(urljoin(client, url) for url in linked))


def _from_document(client: str, document: dict[str, Any]) -> Client:
    # The document must be the client's own, and its page must be above it.
    if document.get("client_id") != client or not client.startswith(document.get("client_uri", "\n")):
        return Client(client)
    return Client(client, str(document.get("client_name", "")), tuple(document.get("redirect_uris", ())))
