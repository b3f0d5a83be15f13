"""The HTTP API with real stores: users with tokens, feeds with posts, and a clock that stands still."""

from __future__ import annotations

import json
from contextlib import AbstractAsyncContextManager
from typing import Any

from microsub.configuration.model import InstanceSettings
from microsub.posts.values import ItemToStore
from microsub.redis.protocol import Redis
from tests.support.posts import NOON, candidate
from tests.support.reader import ENDPOINT, Reader, assert_no_null
from tests.support.world import LOOPBACK, Clock, Web, World, nowhere, world

__all__ = ["ENDPOINT", "LOOPBACK", "Reader", "Web", "assert_no_null", "instance", "nowhere", "posts"]


def instance(redis: Redis, now: float = NOON + 10_000, **parts: Any) -> AbstractAsyncContextManager[World]:
    """A world without a network, at the time `now`."""
    usual = {"clock": Clock(now), "settings": InstanceSettings(), "resolver": nowhere}
    return world(redis, **{**usual, **parts})


def posts(*names: str, at: float = NOON, **more: Any) -> list[ItemToStore]:
    """Posts in document order, newest first, one second apart."""
    return [candidate(name, at=at + len(names) - place, **more) for place, name in enumerate(names)]


FEED = "https://blog.example/feed"
OTHER = "https://other.example/feed"
ANN = "https://blog.example/"

Key = tuple[str, str, str]


def parameters(key: Key, ids: list[str]) -> dict[str, Any]:
    """The parameters of a request of each kind that changes or shows as much as possible for its own user."""
    verb, action, method = key
    more: dict[Key, dict[str, Any]] = {
        ("POST", "channels", ""): {"channel": "home", "name": "Taken over"},
        ("POST", "channels", "delete"): {"channel": "home"},
        ("POST", "channels", "order"): {"channels[]": ["later", "home"]},
        ("GET", "timeline", ""): {"channel": "global", "limit": 100},
        ("GET", "timeline", "ids"): {"limit": 10_000},
        ("POST", "timeline", "mark_read"): {"channel": "global", "entry[]": ids},
        ("POST", "timeline", "mark_unread"): {"channel": "global", "entry[]": ids},
        ("POST", "timeline", "remove"): {"channel": "global", "entry[]": ids},
        ("POST", "timeline", "move"): {"channel": "later", "entry[]": ids},
        ("POST", "timeline", "save"): {"entry[]": ids},
        ("POST", "timeline", "unsave"): {"entry[]": ids},
        ("GET", "follow", ""): {"channel": "global"},
        ("POST", "follow", ""): {"channel": "later", "url": OTHER},
        ("POST", "follow", "update"): {"channel": "later", "url": FEED},
        ("GET", "follow", "settings"): {"channel": "home", "url": FEED},
        ("POST", "follow", "sign_in"): {"channel": "home", "url": FEED, "headers": "Cookie: stolen=1"},
        ("POST", "follow", "settings"): {"channel": "home", "url": FEED, "name": "Taken over", "hide_in_all": "true"},
        ("POST", "unfollow", ""): {"channel": "home", "url": FEED},
        ("GET", "search", ""): {"query": "private words"},
        ("POST", "search", ""): {"query": "private words"},
        ("GET", "preview", ""): {"url": FEED},
        ("POST", "preview", ""): {"url": FEED},
        ("POST", "mute", ""): {"url": ANN},
        ("POST", "unmute", ""): {"url": ANN},
        ("POST", "block", ""): {"url": ANN},
        ("POST", "unblock", ""): {"url": ANN},
        ("GET", "outputs", ""): {"output": "picks"},
        ("POST", "outputs", "create"): {"output": "more", "channel": "home"},
        ("POST", "outputs", "change"): {"output": "picks", "public": "true"},
        ("POST", "outputs", "delete"): {"output": "picks"},
        ("POST", "outputs", "renew"): {"output": "picks"},
        ("POST", "outputs", "revoke"): {"output": "picks"},
        ("POST", "outputs", "add"): {"output": "picks", "entry[]": ids},
        ("POST", "outputs", "publish"): {"output": "picks", "entry[]": ids},
        ("POST", "outputs", "remove"): {"output": "picks", "entry[]": ids},
        ("POST", "topics", "create"): {"channel": "home"},
        ("POST", "topics", "renew"): {"channel": "home"},
        ("POST", "topics", "revoke"): {"channel": "home"},
    }
    assert verb == "GET" or key in more, f"say here what a good request for {key} is"
    return {"action": action, **({"method": method} if method else {}), **more.get(key, {})}


async def snapshot(reader: Reader) -> str:
    """Everything that a user can see of their own data."""
    views: list[Any] = [
        await reader.get(action="channels", method="tree"),
        await reader.get(action="follow", channel="global"),
        await reader.get(action="mute"),
        await reader.get(action="block"),
        await reader.get(action="timeline", channel="global", limit=100),
        await reader.get(action="outputs"),
    ]
    for channel in views[0]["channels"]:
        for is_read in ("true", "false"):
            views.append(await reader.get(action="timeline", channel=channel["uid"], limit=100, is_read=is_read))
    return json.dumps(views, sort_keys=True)
