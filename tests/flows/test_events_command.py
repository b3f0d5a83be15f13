"""`microsub events` for another program, with real processes: events while it runs, and events while it didn't."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

from microsub.library import PostStore, StoreError, open_post_store
from microsub.redis.embedded.datafolder import Folder
from tests.support.fork_server import Process
from tests.support.process import Installation, installation
from tests.support.waiting import wait_until

FEED = "https://service.test/feed"


async def save(posts: PostStore, *guids: str) -> None:
    for guid in guids:
        await posts.save(FEED, {"guid": guid, "timestamp": 1_700_000_000})


class Follower:
    """A process that follows the events, and the lines that it has printed so far."""

    def __init__(self, installed: Installation, process: Process) -> None:
        self.process = process
        self._out = installed.folder / f"{len(installed.processes) - 1}.out"

    @classmethod
    async def start(cls, installed: Installation, *flags: str) -> Follower:
        return cls(installed, await installed.start("events", "--json", *flags))

    @property
    def events(self) -> list[dict[str, Any]]:
        whole = self._out.read_text().rpartition("\n")[0]
        return [json.loads(line) for line in whole.splitlines()]

    @property
    def guids(self) -> list[str]:
        return [event["guid"] for event in self.events if event["kind"] == "post_created"]

    async def has(self, *guids: str) -> None:
        await wait_until(lambda: self.guids == list(guids))

    async def end(self, number: int) -> None:
        self.process.send_signal(number)
        await self.process.wait()


async def test_events_are_followed_across_restarts(tmp_path: Path) -> None:
    """A program that is killed and resumes after its last id receives each event exactly once."""
    async with installation(tmp_path, {"users": {}}) as installed:
        await installed.serve()
        async with open_post_store(data_dir=installed.folder / "data") as posts:
            await save(posts, "early")
            first = await Follower.start(installed, "--follow", "--since", "0")
            await first.has("early")
            await save(posts, "one", "two")
            await first.has("early", "one", "two")
            assert [event["kind"] for event in first.events][:2] == ["feed_created", "post_created"]
            await first.end(signal.SIGKILL)
            await save(posts, "three")
            await posts.update_or_create(FEED, "one", {"name": "One", "mood": "calm"})
            second = await Follower.start(installed, "--follow", "--since", first.events[-1]["id"])
            await second.has("three")
            await save(posts, "four")
            await second.has("three", "four")
            (modified,) = [event for event in second.events if event["kind"] == "post_modified"]
            assert (modified["guid"], modified["changed"]) == ("one", ["mood", "name", "post-type"])
            await second.end(signal.SIGINT)
            assert second.process.returncode == 130
        code, out, _ = await installed.run("events", "--since", "0")
        assert code == 0
        assert [line.split()[2:5] for line in out.splitlines()][:2] == [
            ["feed", "created:", "feed"],
            ["post", "created:", "feed"],
        ]
        assert len(out.splitlines()) == 7
        code, _, err = await installed.run("events", "--since", "yesterday")
        assert (code, "--since" in err, "yesterday" in err) == (2, True, True)


async def test_following_resumes_after_a_restart_of_redis(tmp_path: Path) -> None:
    """If the embedded engine is killed, the server starts it again, and following resumes by itself."""
    async with installation(tmp_path, {"users": {}}) as installed:
        await installed.serve()
        follower = await Follower.start(installed, "--follow", "--since", "0")
        async with open_post_store(data_dir=installed.folder / "data") as posts:
            await save(posts, "before")
            await follower.has("before")
            os.kill(json.loads((installed.folder / "data" / "redis.json").read_text())["pid"], signal.SIGKILL)
            # The server starts it again, and logs that.
            await wait_until(lambda: "the embedded engine runs again" in (installed.folder / "0.log").read_text())
            words = (installed.folder / "0.log").read_text()
            assert "the embedded engine has stopped" in words
            assert "Traceback" not in words

            async def saved() -> bool:
                try:
                    await save(posts, "after")
                except StoreError:  # until Redis is back
                    return False
                return True

            await wait_until(saved)
            await wait_until(lambda: "after" in follower.guids or len(follower.events) > 2)
            assert {post.guid for post in (await posts.newest(FEED)).posts} >= {"before", "after"}
        assert follower.process.returncode is None


async def test_the_last_follower_stops_redis_at_a_signal(tmp_path: Path) -> None:
    """A command that a signal ends stops the embedded engine if nobody else uses it."""
    data = tmp_path / "data"
    async with installation(tmp_path, {"users": {}}) as installed:
        async with open_post_store(data_dir=data, create=True) as posts:
            await save(posts, "first")
            follower = await Follower.start(installed, "--follow", "--since", "0")
            await follower.has("first")
        assert Folder(data).is_running()
        await follower.end(signal.SIGTERM)
        assert follower.process.returncode == 128 + signal.SIGTERM
        assert not Folder(data).is_running()
