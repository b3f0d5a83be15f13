"""What people see of the provider in `provider.py`: profile pages, the page of consent, the page of a problem."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Literal, Protocol

from tests.support.raw_http import Reply, html_reply


@dataclass(frozen=True)
class Variant:
    """How the provider is built; the docstring of `provider.py` says what each value means."""

    discovery: Literal["metadata", "older", "both"] = "metadata"
    links: Literal["header", "html", "both", "separate"] = "html"
    joined: bool = False
    relative: bool = False
    pkce: Literal["required", "optional", "ignored"] = "required"
    iss: bool = True
    replies: Literal["json", "form"] = "json"
    check: Literal["introspection", "older", "both"] = "introspection"
    authorized: Literal["token", "secret", "nothing"] = "token"
    refresh: bool = True
    lifetime: int | None = 3600
    consent: Literal["auto", "form"] = "auto"
    fetches: bool = False
    twice: bool = False
    caching: str | None = None

    @classmethod
    def older(cls, **other: Any) -> Variant:
        """As they were around 2016: two rels, no metadata, no PKCE, no `iss`, no expiry, forms, checks by GET."""
        values: dict[str, Any] = {
            **{"discovery": "older", "pkce": "ignored", "iss": False, "replies": "form", "check": "older"},
            **{"refresh": False, "lifetime": None},
        }
        return cls(**{**values, **other})

    @classmethod
    def lenient(cls, **other: Any) -> Variant:
        """As most are today: both ways of discovery and of checking, PKCE for those who use it."""
        values: dict[str, Any] = {"discovery": "both", "pkce": "optional", "check": "both"}
        return cls(**{**values, **other})


class Holder(Protocol):
    """Whose profile is shown."""

    @property
    def name(self) -> str: ...
    @property
    def me(self) -> str: ...
    @property
    def microsub(self) -> str | None: ...
    @property
    def micropub(self) -> str | None: ...


class Shown(Protocol):
    """Which client is shown."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...


def rels(variant: Variant, person: Holder, base: str) -> list[tuple[str, str]]:
    """What a profile names, as pairs of rel and URL."""
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


def profile_reply(variant: Variant, person: Holder, base: str) -> Reply:
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


def consent_page(ticket: str, client: Shown, scope: Sequence[str], me: str) -> Reply:
    """The page on which a person signs in, chooses scopes, and allows or denies."""
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


def problem_page(text: str, status: int = 400) -> Reply:
    """What is told to the person, because it may not be told to the client."""
    return html_reply(f"<!doctype html><meta charset=utf-8><title>Problem</title><p>{escape(text)}</p>", status)
