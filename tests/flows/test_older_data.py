"""A data folder of an older version is migrated to the current layout and served.

`data/layout_1` contains the backend.json of that server, with API changes written into it, and all of its keys.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import httpx

from microsub.migrations import VERSION
from microsub.redis.connect import connect
from microsub.redis.embedded.server import start_embedded
from tests.support.process import installation, reader

WRITTEN = Path(__file__).parents[1] / "data" / "layout_1"
TOKEN = "alice.UqWSrI2_fDkIaQgJQs6Dqbm6KqTSbUnRhuhkFZhEKoQ"
OF_A_PROGRAM = "~planet.3Trrgbj3FPRLBB1B8LibglyRruzkd9KGX1DiSvh3UfA"


def _text(value: Any) -> Any:
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else value


def _commands(key: str, kind: str, value: Any) -> list[tuple[Any, ...]]:
    match kind:
        case "string":
            return [("SET", key, _text(value))]
        case "hash":
            return [("HSET", key, *(_text(part) for pair in value for part in pair))]
        case "set":
            return [("SADD", key, *map(_text, value))]
        case "zset":
            return [("ZADD", key, *(part for member, score in value for part in (score, _text(member))))]
        case "stream":
            added = [
                ("XADD", key, at, *(_text(part) for pair in fields for part in pair)) for at, fields in value["entries"]
            ]
            groups = [("XGROUP", "CREATE", key, name, last, "MKSTREAM") for name, last in value["groups"]]
            return added + groups
    raise ValueError(kind)


async def _fill(folder: Path) -> None:
    embedded = start_embedded(folder)
    redis = await connect(embedded.url)
    try:
        for key, found in json.loads((WRITTEN / "keys.json").read_text("utf-8")).items():
            for command in _commands(key, found["type"], found["value"]):
                await redis.command(*command)
            if ttl := found.get("ttl_ms"):
                await redis.command("PEXPIRE", key, ttl)
    finally:
        await redis.aclose()
        embedded.stop()


async def test_the_data_of_layout_1_is_migrated_and_served(tmp_path: Path) -> None:
    """Channels, settings, posts, read state, rules, tokens and passwords are there; the check finds nothing."""
    backend = (WRITTEN / "backend.json").read_text("utf-8")
    async with installation(tmp_path, {}) as installed:
        installed.write(backend)
        await _fill(tmp_path / "data")
        url = await installed.serve("web")
        async with reader(url, TOKEN) as alice:
            channels = await alice.channels()
            assert {uid: (one["name"], one["unread"]) for uid, one in channels.items()} == {
                "notifications": ("Notifications", 0),
                "home": ("Home", True),
                "later": ("Later", 0),
                "made-in-an-app": ("Made in an app", 0),
                "saved": ("Saved", 0),
            }
            items = await alice.timeline("home")
            assert {one["name"]: one["_is_read"] for one in items} == {
                "Post 5": False,
                "Post 4": True,
                "Post 3": False,
                "Post 2": False,
            }
            assert "<strong>post 5</strong>" in items[0]["content"]["html"]
            assert [one["url"] for one in (await alice.get(action="follow", channel="home"))["items"]] == [
                "http://127.0.0.1:18931/feed.xml"
            ]
            assert [one["url"] for one in (await alice.get(action="mute", channel="home"))["items"]] == [
                "https://loud.example/"
            ]
            assert [one["url"] for one in (await alice.get(action="block", channel="later"))["items"]] == [
                "https://rude.example/"
            ]
            await alice.post(action="timeline", method="mark_read", channel="home", entry=items[0]["_id"])
        async with httpx.AsyncClient(timeout=60) as http:
            feeds = await http.get(f"{url}/store/feeds", headers={"Authorization": f"Bearer {OF_A_PROGRAM}"})
        assert feeds.status_code == 200
        listed, checked = await installed.run_each("user list --json", "check --json")
        assert [(one["name"], one["channels"]) for one in json.loads(listed)] == [("alice", 3), ("bob", 0)]
        assert json.loads(checked)["findings"] == []
        assert "problem" not in installed.log
        assert installed.backend.read_text() == backend
        await installed.stop()
        embedded = start_embedded(tmp_path / "data")
        redis = await connect(embedded.url)
        try:
            assert await redis.command("GET", "meta:schema") == str(VERSION).encode()
            assert await redis.command("HGET", "user:{bob}:credentials", "password")
            assert json.loads(await redis.command("HGET", "config:settings", "user:alice"))["quotas"] == {"feeds": 20}
        finally:
            await redis.aclose()
            embedded.stop()
