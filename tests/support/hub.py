"""A WebSub hub that follows https://www.w3.org/TR/websub/ exactly, with options for common violations."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

import httpx

from tests.support.polling import rss
from tests.support.web import Answer, Asked, Publisher

Form = dict[str, str]


@dataclass
class HubSubscriber:
    """The hub's record of a verified subscription."""

    callback: str
    topic: str
    secret: str
    until: float


@dataclass
class Hub:
    """A hub at `site`; `http` sends its requests to callbacks.

    `lease` is the granted lease, None for the requested one; `method` signs; if `verifies` is False, the hub accepts
    requests but does nothing. `answer` may handle a request first. `requests` are the received forms; `verified` are
    the replies of callbacks to verifications: mode, status, body.
    """

    site: Publisher
    http: httpx.AsyncClient
    path: str = "/hub"
    lease: int | None = None
    method: str = "sha256"
    verifies: bool = True
    answer: Callable[[Asked, Form], Answer | None] | None = None
    clock: Callable[[], float] = time.time
    requests: list[Form] = field(default_factory=list)
    verified: list[tuple[str, int, str]] = field(default_factory=list)
    subscriptions: dict[tuple[str, str], HubSubscriber] = field(default_factory=dict)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.site.serve(self.path, self._asked)

    @property
    def url(self) -> str:
        return self.site.url(self.path, "hub.test")

    def links(self, topic: str) -> str:
        """The elements of an RSS channel that name this hub and the topic."""
        atom = 'xmlns="http://www.w3.org/2005/Atom"'
        return f'<link {atom} rel="hub" href="{self.url}"/><link {atom} rel="self" href="{topic}"/>'

    def document(self, topic: str, *names: str) -> bytes:
        """A feed with this hub and posts with these names."""
        return rss([(name, name, None) for name in names], extra=self.links(topic))

    def asked_for(self, mode: str) -> list[Form]:
        return [form for form in self.requests if form.get("hub.mode") == mode]

    @property
    def callbacks(self) -> list[str]:
        """The callbacks of all subscriptions, in order of verification."""
        return [one.callback for one in self.subscriptions.values()]

    async def settle(self) -> None:
        """Wait until all tasks of the hub are done."""
        while self.tasks:
            await asyncio.gather(*self.tasks)

    async def _asked(self, asked: Asked) -> Answer:
        form = dict(parse_qsl(asked.body.decode(), keep_blank_values=True))
        if self.answer is not None and (other := self.answer(asked, form)) is not None:
            return other
        self.requests.append(form)
        assert asked.headers["content-type"] == "application/x-www-form-urlencoded"
        if form.get("hub.mode") not in {"subscribe", "unsubscribe"} or not form.get("hub.callback"):
            return Answer(b"hub.mode and hub.callback are needed", 400)
        if self.verifies:
            task = asyncio.create_task(self._verify(form))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
        return Answer(status=202)

    async def _verify(self, form: Form) -> None:
        """Verification of intent (5.3): the challenge must come back with a 2xx."""
        await asyncio.sleep(0)
        mode, topic, callback = form["hub.mode"], form["hub.topic"], form["hub.callback"]
        challenge = secrets.token_urlsafe(20)
        lease = self.lease if self.lease is not None else int(form.get("hub.lease_seconds", "86400"))
        query = {"hub.mode": mode, "hub.topic": topic, "hub.challenge": challenge}
        if mode == "subscribe":
            query["hub.lease_seconds"] = str(lease)
        reply = await self.http.get(callback, params=query)
        self.verified.append((mode, reply.status_code, reply.text))
        if not reply.is_success or reply.text != challenge:
            return
        if mode == "unsubscribe":
            self.subscriptions.pop((topic, callback), None)
        else:
            one = HubSubscriber(callback, topic, form.get("hub.secret", ""), self.clock() + lease)
            self.subscriptions[topic, callback] = one

    async def publish(self, topic: str, body: bytes, content_type: str = "application/rss+xml") -> list[int]:
        """Deliver a body to all subscribers; the statuses of their replies (7)."""
        found = [one for one in self.subscriptions.values() if one.topic == topic and one.until > self.clock()]
        return [(await self.deliver(one.callback, body, one.secret, content_type)).status_code for one in found]

    async def deliver(
        self,
        callback: str,
        body: bytes,
        secret: str | None,
        content_type: str = "application/rss+xml",
        **headers: str,
    ) -> httpx.Response:
        """One delivery, signed unless `secret` is None."""
        sent = {"content-type": content_type, "link": f'<{self.url}>; rel="hub"', **headers}
        if secret is not None:
            digest = hmac.new(secret.encode(), body, getattr(hashlib, self.method)).hexdigest()
            sent.setdefault("x-hub-signature", f"{self.method}={digest}")
        return await self.http.post(callback, content=body, headers=sent)

    async def deny(self, callback: str, topic: str, reason: str = "") -> httpx.Response:
        """End a subscription, or refuse one (5.2)."""
        self.subscriptions.pop((topic, callback), None)
        return await self.http.get(callback, params={"hub.mode": "denied", "hub.topic": topic, "hub.reason": reason})


@asynccontextmanager
async def hub(site: Publisher, http: httpx.AsyncClient | None = None) -> AsyncIterator[Hub]:
    """A hub at this site, which sends requests to callbacks over `http` or the network."""
    async with httpx.AsyncClient(timeout=60) as own:
        made = Hub(site, http or own)
        yield made
        await made.settle()
