"""What the provider in `provider.py` keeps: people, requests, codes, tokens; and what may go wrong with its replies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from tests.support.provider_clients import Client
from tests.support.raw_http import Reply, Request


@dataclass(frozen=True)
class Fault:
    """What goes wrong at one endpoint, for `times` requests (None: until `mend`).

    `status`, `body`, `content_type` and `headers` replace or add what would be sent; `padding` puts that many bytes
    after the body; `hang` never answers; `wait` answers when the event is set; `drop` closes without a word; `location`
    answers with a redirect there (empty: to the same address again). `change` sets values of a JSON object, of the
    metadata, or of the redirect's query; None takes one away.
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
    """Somebody who has an account here. `me` is the profile URL that the provider answers with."""

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
    """An authorization request that the person hasn't decided on yet."""

    client: Client
    redirect_uri: str
    state: str | None
    scope: tuple[str, ...]
    challenge: str | None


@dataclass
class Code:
    """What a code stands for; `uses` counts the times it was redeemed."""

    person: Person
    asking: Asking
    scope: tuple[str, ...]
    expires: float
    uses: int = 0


@dataclass
class Token:
    """An access token or a refresh token that was given out."""

    person: Person
    client: str
    scope: tuple[str, ...]
    expires: float | None
    code: str
    revoked: bool = False


def changed(reply: Reply, fault: Fault) -> Reply:
    """The reply with the fault in it, where that is a matter of the reply."""
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
    return Reply(body, status, [*headers, *fault.headers], hang=fault.hang, drop=fault.drop)


def _relocated(location: str, change: Mapping[str, Any]) -> str:
    before, _, query = location.partition("?")
    values = Request("GET", f"/?{query}").query | change
    return f"{before}?{urlencode({name: value for name, value in values.items() if value is not None})}"


def _is_json(reply: Reply) -> bool:
    return ("Content-Type", "application/json") in reply.headers
