"""What every action is asked with, and all that a user can see of their own things: for tests of who may do what."""

from __future__ import annotations

import json
from typing import Any

from tests.support.readers import Reader

FEED = "https://blog.example/feed"
OTHER = "https://other.example/feed"
ANN = "https://blog.example/"

Key = tuple[str, str, str]


def parameters(key: Key, ids: list[str]) -> dict[str, Any]:
    """A request of each kind that, from its own user, changes or shows as much as it can."""
    verb, action, method = key
    more: dict[Key, dict[str, Any]] = {
        ("POST", "channels", ""): {"channel": "home", "name": "Taken over"},
        ("POST", "channels", "delete"): {"channel": "home"},
        ("POST", "channels", "order"): {"channels[]": ["later", "home"]},
        ("GET", "timeline", ""): {"channel": "global", "limit": 100},
        ("POST", "timeline", "mark_read"): {"channel": "global", "entry[]": ids},
        ("POST", "timeline", "mark_unread"): {"channel": "global", "entry[]": ids},
        ("POST", "timeline", "remove"): {"channel": "global", "entry[]": ids},
        ("POST", "timeline", "move"): {"channel": "later", "entry[]": ids},
        ("GET", "follow", ""): {"channel": "global"},
        ("POST", "follow", ""): {"channel": "later", "url": OTHER},
        ("POST", "follow", "update"): {"channel": "later", "url": FEED},
        ("POST", "unfollow", ""): {"channel": "home", "url": FEED},
        ("GET", "search", ""): {"query": "private words"},
        ("POST", "search", ""): {"query": "private words"},
        ("GET", "preview", ""): {"url": FEED},
        ("POST", "preview", ""): {"url": FEED},
        ("POST", "mute", ""): {"url": ANN},
        ("POST", "unmute", ""): {"url": ANN},
        ("POST", "block", ""): {"url": ANN},
        ("POST", "unblock", ""): {"url": ANN},
    }
    assert verb == "GET" or key in more, f"say here what a good request for {key} is"
    return {"action": action, **({"method": method} if method else {}), **more.get(key, {})}


async def snapshot(reader: Reader) -> str:
    """Everything that a user can see of their own things."""
    views: list[Any] = [
        await reader.get(action="channels", method="tree"),
        await reader.get(action="follow", channel="global"),
        await reader.get(action="mute"),
        await reader.get(action="block"),
        await reader.get(action="timeline", channel="global", limit=100),
    ]
    for channel in views[0]["channels"]:
        for is_read in ("true", "false"):
            views.append(await reader.get(action="timeline", channel=channel["uid"], limit=100, is_read=is_read))
    return json.dumps(views, sort_keys=True)
