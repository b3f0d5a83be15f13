"""The data folder of a server that wrote the first layout of a release is opened and served.

`data/layout_8` contains what that program left on disk: its backend.json, with changes from apps written into it, and
its data in Redis.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import httpx

from microsub.redis.connect import connect
from microsub.redis.embedded.server import start_embedded
from microsub.redis.migrations import VERSION
from tests.support.process import installation, reader

WRITTEN = Path(__file__).parents[1] / "data" / "layout_8"
TOKEN = "alice.86WReD7jL3LnZryUlLiylqGX1KGc_H0oCyFm73qDPp0"
OF_A_PROGRAM = "~planet.6GAgtCdxWDWwA3dQK7Q1090-IFwd3wvmYFzUyxkoSVY"
OF_A_SOURCE = "alice.QqkumFvZa7o3BdoGU8epo5IzX6HUlx2J1WQxtTJABmY"
OUTPUT = "/feeds/alice.I4lX7OMPtGScZ77CugtRvAmIr00fMPg8.json"


async def test_the_data_of_layout_8_is_served(tmp_path: Path) -> None:
    """Channels, settings, posts, read state, rules, output feeds, tokens and passwords are there; the check finds
    nothing. Its posts and the ids that have left timelines are packed meanwhile, and a dry run said how many.
    """
    (tmp_path / "data").mkdir(mode=0o700)
    shutil.copy(WRITTEN / "appendonly.aof", tmp_path / "data")
    backend = (WRITTEN / "backend.json").read_text("utf-8")
    async with installation(tmp_path, {}) as installed:
        installed.write(backend)
        (said,) = await installed.run_each("pack --dry-run --json")
        foreseen = json.loads(said)
        url = await installed.serve("web")
        async with reader(url, TOKEN) as alice:
            channels = await alice.channels()
            assert {uid: (one["name"], one["unread"]) for uid, one in channels.items()} == {
                "notifications": ("Notifications", 0),
                "home": ("Home", True),
                "later": ("Later", 2),
                "made-in-an-app": ("Made in an app", 0),
                "saved": ("Saved", 0),
            }
            items = await alice.timeline("home")
            packed, shown = map(json.loads, await installed.run_each("pack --json", f"post {items[0]['_id']}"))
            assert packed["posts"] == foreseen["posts"] >= 4
            assert 0 < packed["freed"] == foreseen["freed"]
            assert packed["timelines"]["ids"] == foreseen["timelines"]["ids"] >= 1
            assert await alice.timeline("home") == items
            assert shown == {name: value for name, value in items[0].items() if name not in {"_is_read", "_channel"}}
            assert {one["name"]: one["_is_read"] for one in items} == {
                "Post 7": False,
                "Post 6": False,
                "Post 4": True,
                "Post 3": False,
            }
            assert "<strong>post 7</strong>" in items[0]["content"]["html"]
            assert {one["name"] for one in await alice.timeline("later")} == {"Backup done", "Post 5"}
            assert [one["name"] for one in await alice.timeline("saved")] == ["Post 3"]
            for action, channel, shown in (
                ("follow", "home", "http://127.0.0.1:18931/feed.xml"),
                ("mute", "home", "https://loud.example/"),
                ("block", "later", "https://rude.example/"),
            ):
                assert [one["url"] for one in (await alice.get(action=action, channel=channel))["items"]] == [shown]
            await alice.post(action="timeline", method="mark_read", channel="home", entry=items[0]["_id"])
        async with httpx.AsyncClient(base_url=url, timeout=60) as http:
            feeds = await http.get("/store/feeds", headers={"Authorization": f"Bearer {OF_A_PROGRAM}"})
            sent = await http.post(
                "/micropub", data={"h": "entry", "content": "New"}, headers={"Authorization": f"Bearer {OF_A_SOURCE}"}
            )
            published = await http.get(OUTPUT)
        assert (feeds.status_code, sent.status_code) == (200, 201)
        assert [one["title"] for one in published.json()["items"]] == ["Post 7"]
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
