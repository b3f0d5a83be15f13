"""Alice's pages, webmentions about them, and her notifications."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from microsub.configuration.model import MentionSettings, UserSettings
from microsub.redis.protocol import Redis
from microsub.webmention.mention import Mention
from tests.support.polling import World, world
from tests.support.web import Answer, Publisher, publisher

TARGET = "https://alice.example/post"
HTML = "text/html; charset=utf-8"


def page(inside: str) -> bytes:
    return f"<!DOCTYPE html><html><head><title>Bob's page</title></head><body>{inside}</body></html>".encode()


def entry(prop: str = "u-in-reply-to", target: str = TARGET, text: str = "Well said") -> bytes:
    """Bob's post that refers to the target with this property."""
    return page(
        '<div class="h-entry"><a class="p-author h-card" href="http://bob.test/">Bob</a>'
        f'<a class="{prop}" href="{target}">there</a><p class="e-content">{text}</p></div>'
    )


@dataclass
class Mentions:
    """Alice, whose site is https://alice.example/, and a site that mentions it."""

    it: World
    site: Publisher
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def source(self) -> str:
        return self.site.url("/1", "bob.test")

    def serve(self, body: bytes, content_type: str = HTML, status: int = 200, path: str = "/1") -> str:
        """Serve Bob's page; its address."""
        self.site.serve(path, Answer(body, status, headers=[("Content-Type", content_type)]))
        return self.site.url(path, "bob.test")

    async def post(self, form: Any, path: str = "/webmention", **more: Any) -> httpx.Response:
        return await self.it.client.post(path, data=form, **more)

    async def send(self, source: str | None = None, target: str = TARGET, path: str = "/webmention") -> int:
        """Send a webmention; the status of the reply."""
        reply = await self.post({"source": source or self.source, "target": target}, path)
        return reply.status_code

    async def look(self) -> None:
        """Verify due webmentions, and deliver the results to timelines."""
        await self.it.verifier.visit_due(self.it.now)
        await self.it.stages.run_once()

    async def receive(self, body: bytes, content_type: str = HTML, target: str = TARGET, **more: Any) -> None:
        """Serve Bob's page, send the webmention, and verify it."""
        self.serve(body, content_type, **more)
        assert await self.send(target=target) == 202
        await self.look()

    async def shown(self, user: str = "alice", uid: str = "notifications") -> list[dict[str, Any]]:
        """The items of the channel, newest first."""
        return [json.loads(text) for text in await self.it.texts(user, uid)]

    async def kinds(self) -> list[str]:
        return [item["post-type"] for item in await self.shown()]

    async def only(self) -> Mention:
        """The only webmention in Alice's list."""
        (mention,) = await self.it.mentions.all_of("alice")
        return mention

    async def set(self, **settings: Any) -> None:
        """Set Alice's webmention settings, as backend.json does."""
        await self.it.declared.set_user("alice", UserSettings(webmention=MentionSettings(**settings)))
        self.it.effective.forget()
        self.it.clock.advance(11)


@asynccontextmanager
async def mentioning(redis: Redis, **parts: Any) -> AsyncIterator[Mentions]:
    async with world(redis, base_url="https://reader.example", **parts) as it, publisher() as site:
        await it.accounts.add_user("alice", "https://alice.example/", it.now)
        await it.accounts.add_user("bob", "https://people.example/bob", it.now)
        await it.accounts.add_user("carol", "", it.now)
        yield Mentions(it, site)
