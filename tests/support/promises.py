"""A reader who never stops, and who remembers what was acknowledged: for tests in which Redis goes away meanwhile."""

from __future__ import annotations

import asyncio
import itertools
import time
from dataclasses import dataclass, field

import httpx

from tests.support.process import Reader


@dataclass
class Promises:
    """Marks, follows and channels that `reader` was told are done. What failed in between may be done or not."""

    reader: Reader
    feeds: list[str]
    read: dict[str, bool] = field(default_factory=dict)
    followed: set[str] = field(default_factory=set)
    channels: set[str] = field(default_factory=set)
    acknowledged: int = 0
    refused: int = 0
    times: dict[str, float] = field(default_factory=dict)
    """When the newest change of a post, feed or channel was acknowledged, by `time.monotonic`."""

    async def make(self, ids: list[str]) -> None:
        """Mark each post in turn as read and as unread, and now and then follow a feed or make a channel; for ever."""
        feeds = iter(self.feeds)
        for number, item_id in enumerate(itertools.cycle(ids)):
            method = "mark_unread" if self.read.pop(item_id, False) else "mark_read"
            if await self._done(action="timeline", method=method, channel="home", entry=item_id):
                self.read[item_id] = method == "mark_read"
                self.times[item_id] = time.monotonic()
            if (
                number % 10 == 0
                and (url := next(feeds, None))
                and await self._done(action="follow", channel="more", url=url)
            ):
                self.followed.add(url)
                self.times[url] = time.monotonic()
            if number % 25 == 0 and await self._done(action="channels", name=f"Made {number}"):
                self.channels.add(f"Made {number}")
                self.times[f"Made {number}"] = time.monotonic()

    def older(self, moment: float) -> int:
        """How many of what holds was acknowledged before that moment."""
        return sum(at < moment for at in self.times.values())

    def doubt(self, since: float) -> None:
        """What was acknowledged since then may be done or not."""
        for name in [name for name, at in self.times.items() if at >= since]:
            del self.times[name]
            self.read.pop(name, None)
            self.followed.discard(name)
            self.channels.discard(name)

    async def _done(self, **parameters: str) -> bool:
        headers = {"Authorization": f"Bearer {self.reader.token}"}
        try:
            reply = await self.reader.http.post(self.reader.endpoint, data=parameters, headers=headers)
        except httpx.HTTPError:
            reply = None
        if reply is None or reply.status_code == 503:
            self.refused += 1
            await asyncio.sleep(0.02)  # a reader who tries again
            return False
        assert reply.status_code == 200, reply.text
        self.acknowledged += 1
        return True

    async def hold(self) -> None:
        """Fail unless everything that was acknowledged is there."""
        items = await self.reader.timeline("home")
        assert len({item["_id"] for item in items}) == len(items)
        read = {item["_id"]: item["_is_read"] for item in items}
        assert {item_id: read.get(item_id) for item_id in self.read} == self.read
        channels = await self.reader.channels()
        assert channels["home"]["unread"] == sum(not is_read for is_read in read.values())
        assert self.channels <= {channel["name"] for channel in channels.values()}
        listed = await self.reader.get(action="follow", channel="more")
        assert self.followed <= {feed["url"] for feed in listed["items"]}
