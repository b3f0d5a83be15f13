"""An invented database of the older Go server, in that server's layout."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from microsub.redis.protocol import Command, Redis
from microsub.transfer.ekster.imports import OldFile, read_old

BEGIN = 1_600_000_000
"""Publication of the oldest invented post, in Unix seconds; the others follow hour by hour."""


@dataclass
class OldServer:
    """Channels, feeds and items of one user, as `file` and in `redis`."""

    redis: Redis
    channels: dict[str, str] = field(default_factory=dict)
    feeds: dict[str, list[str]] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def body(self) -> bytes:
        """Its backend.json."""
        return json.dumps(
            {
                "Channels": {uid: {"uid": uid, "name": name} for uid, name in self.channels.items()},
                "Feeds": {uid: [{"type": "feed", "url": url} for url in urls] for uid, urls in self.feeds.items()},
                "Settings": self.settings,
                "NextUID": 1002,
                "Me": "https://ann.example/",
                "TokenEndpoint": "https://tokens.example/",
            }
        ).encode()

    def file(self) -> OldFile:
        return read_old(self.body, "old.json", {})

    async def channel(self, uid: str, name: str, order: int, feeds: Sequence[str] = ()) -> None:
        self.channels[uid] = name
        self.feeds[uid] = list(feeds)
        await self.redis.command("SADD", "channels", uid)
        await self.redis.command("SET", f"channel_sortorder_{uid}", order)

    async def add(self, uid: str, *posts: dict[str, Any], read: bool = False) -> None:
        """Add posts made by `post`; a read one is in the read set and not in the timeline."""
        commands: list[Command] = []
        for one in posts:
            key = f"item:{one['_id']}"
            published = one.get("published", "")
            commands.append(("HSET", key, "ID", one["_id"], "Published", published, "Read", 0, "Data", json.dumps(one)))
            if read:
                commands.append(("SADD", f"channel:{uid}:read", key))
            else:
                at = datetime.fromisoformat(published).timestamp()
                commands.append(("ZADD", f"zchannel:{uid}:posts", int(at), key))
        for start in range(0, len(commands), 500):
            await self.redis.pipeline(commands[start : start + 500])

    async def keys(self) -> dict[bytes, bytes]:
        """All keys and values of the database, to prove that it isn't changed."""
        names = sorted([name async for batch in self.redis.scan() for name in batch])
        return {name: await self.redis.command("DUMP", name) for name in names}


def when(number: float) -> str:
    """The date of the invented post with this number."""
    return datetime.fromtimestamp(BEGIN + 3600 * number, UTC).isoformat().replace("+00:00", "Z")


def post(guid: str, number: float = 0, *, feed: str | None = None, **fields: Any) -> dict[str, Any]:
    """An item as the older server writes it, of the feed at this address."""
    found: dict[str, Any] = {
        "type": "entry",
        "name": f"Post {guid}",
        "published": when(number),
        "url": f"http://posts.test/{guid}",
        "author": {"type": "card", "name": "Invented", "url": "http://posts.test/"},
        "content": {"html": f"<p>About <b>{guid}</b></p><script>alert(1)</script>"},
        "_id": guid.encode().hex(),
        "_is_read": False,
    }
    if feed is not None:
        found["_source"] = {"_id": "7", "url": feed, "name": "Invented", "photo": ""}
    return {name: value for name, value in (found | fields).items() if value is not None}
