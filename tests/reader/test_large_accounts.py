"""The cost of an account with many follows: the steps of a page don't grow with the number of channels."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

import pytest

from microsub.configuration.model import OutputConfig
from microsub.discovery.search import Search, SearchAnswer
from microsub.model.jf2 import Feed
from microsub.reader.reading.undo import UndoRecords
from microsub.redis import keys
from microsub.redis.protocol import Command, Redis
from microsub.timelines import Channels
from microsub.timelines.read_state import ReadState
from microsub.web.pages import Templates
from tests.reader.conftest import ADDRESS, ReadingVisitor, reading
from tests.support.one_reader import ANN, NOW, OneReader
from tests.support.readers import FEED, instance
from tests.support.redis_wrappers import CountingRedis, Wrapped


class AllCommands(Wrapped):
    """`keys` are those that were read completely."""

    def __init__(self, redis: Redis) -> None:
        super().__init__(redis)
        self.keys: list[str] = []

    async def pipeline(self, commands: Sequence[Command]) -> Any:
        self.keys += [str(key) for name, key, *_ in commands if name == "HGETALL"]
        return await super().pipeline(commands)


async def test_the_first_page_costs_the_same_for_200_channels(real_redis: Redis) -> None:
    """Names and counts of all channels come together, and unchanged names aren't sent again."""
    redis, trips = CountingRedis(real_redis), {}
    async with instance(redis, base_url=ADDRESS) as server:
        for name, channels in (("few", 2), ("many", 200)):
            visitor = await reading(server, name, *[f"c{number}" for number in range(channels)])
            await visitor.publish(name)
            assert (await visitor.get("/")).status == 200
            redis.trips = 0
            page = await visitor.get("/")
            trips[name] = redis.trips
            assert len(page.tree.css("#channels li")) == {"few": 5, "many": 4}[name]
    assert trips["many"] == trips["few"] <= 16


async def test_news_of_posts_in_many_channels_cost_the_same(real_redis: Redis) -> None:
    """Each post is looked for in its channel alone, all of them together."""
    redis, trips = CountingRedis(real_redis), []
    async with instance(redis, base_url=ADDRESS) as server:
        visitor = await reading(server, "ann", *[f"c{number}" for number in range(60)])
        await visitor.get("/news")
        for listed in ({"c0": "1"}, {f"c{number}": f"{number} 99" for number in range(60)}):
            redis.trips = 0
            await visitor.get("/news?" + urlencode({"channel": "global", "posts": json.dumps(listed)}))
            trips.append(redis.trips)
    assert trips[0] == trips[1] <= 6


async def test_the_page_to_follow_feeds_reads_the_channels_once(real_redis: Redis) -> None:
    """The list beside it, the choice of channels and the message about the last follow have the same ones; the message
    takes the settings of its channel, too.
    """
    redis = CountingRedis(real_redis)
    async with instance(redis, base_url=ADDRESS) as server:
        visitor = await reading(server, "ann", "c1", "c2")
        for path, most in (("/follow", 5), ("/follow?feed=1&channel=c1", 9), ("/follow?q=feed", 10)):
            assert ("You now follow" in (await visitor.get(path)).text) == ("feed=1" in path)
            redis.trips = 0
            await visitor.get(path)
            assert redis.trips <= most, path


@pytest.mark.parametrize(("name", "most"), [("sources", 9), ("outputs", 8)])
async def test_pages_of_sources_and_output_feeds_have_a_constant_cost(real_redis: Redis, name: str, most: int) -> None:
    """The channels into which sources post come together, and so do the sizes of output feeds."""
    redis, trips = CountingRedis(real_redis), []
    async with instance(redis, base_url=ADDRESS) as server:
        visitor = await reading(server, "ann", "c1", "c2")
        for number in range(8):
            if name == "sources":
                await server.sources.create("ann", f"c{number % 2 + 1}", f"Picks {number}", server.now)
            else:
                await server.outputs.create("ann", f"picks-{number}", OutputConfig(title=f"Picks {number}"), server.now)
            await visitor.get(f"/settings/{name}")
            redis.trips = 0
            page = await visitor.get(f"/settings/{name}")
            trips.append(redis.trips)
            assert f"Picks {number}" in page.text
    assert set(trips) == {trips[0]}
    assert trips[0] <= most


async def test_the_first_page_doesnt_read_follows(real_redis: Redis) -> None:
    """Thousands of follows cost nothing there; a single one is found in any channel."""
    redis = AllCommands(real_redis)
    async with instance(redis, base_url=ADDRESS) as server:
        visitor = await reading(server, "ann", *[f"c{number}" for number in range(120)])
        await server.parts.following.move("ann", "c110", FEED, server.now)
        redis.keys.clear()
        assert (await visitor.get("/")).title == "All"
        assert not {key for key in redis.keys if key.endswith(":feeds")}
        await server.parts.following.unfollow("ann", "c110", FEED, server.now)
        assert (await visitor.get("/")).title == "What do you want to read?"


async def test_links_are_made_again_only_where_a_count_has_changed(
    real_redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of hundreds of channels most haven't changed since the previous page."""
    made: list[str] = []
    original = Templates.macro

    def counting(self: Templates, template: str, name: str, language: str) -> object:
        macro = original(self, template, name, language)
        return (lambda link: made.append(link.uid) or macro(link)) if name == "channel_link" else macro

    monkeypatch.setattr(Templates, "macro", counting)
    async with instance(real_redis, base_url=ADDRESS) as server:
        visitor = await reading(server, "ann", "home", "work", "fun")
        await visitor.get("/")
        made.clear()
        await visitor.publish("news")
        page = await visitor.get("/")
        assert made == ["home"]
        assert [node.text() for node in page.tree.css("#channels [data-count]")][:4] == ["1", "0", "0", "1"]


async def test_marking_takes_one_round_trip_per_eight_channels(real_redis: Redis) -> None:
    """And so does reading what is unread before. No post is requested on its own."""
    world = OneReader(CountingRedis(real_redis))
    await world.begin()
    uids = [f"c{number}" for number in range(80)]
    await real_redis.pipeline([("ZADD", keys.channels(ANN), 10 + n, uid) for n, uid in enumerate(uids)])
    for n, uid in enumerate(uids):
        pairs = [part for one in range(20) for part in (float(n * 20 + one + 1), str(n * 20 + one + 1))]
        await real_redis.pipeline(
            [("ZADD", keys.posts(ANN, uid), *pairs), ("SADD", keys.unread(ANN, uid), *pairs[1::2])]
        )
    redis = CountingRedis(real_redis)
    newest, read_state = str(len(uids) * 20), ReadState(redis, world.items)
    marked = await read_state.mark_until(ANN, "global", newest, NOW)
    assert sum(map(len, marked.values())) == len(uids) * 20
    assert redis.trips == 4 + 2 * (len(uids) // 8)
    redis.trips = 0
    undo = UndoRecords(redis, read_state)
    record = await undo.remember(ANN, marked)
    assert record is not None
    assert await undo.undo(ANN, record.id, NOW) == len(uids) * 20
    assert redis.trips == 4 + len(uids) // 8, "the record and the list are written together"


async def test_long_lists_are_rendered_in_a_thread(ann: ReadingVisitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand mutes, or four thousand channels in a form, blocked the event loop for a quarter of a second."""
    threads: list[threading.Thread] = []
    render = Templates.render

    def noting(templates: Templates, *given: Any) -> str:
        threads.append(threading.current_thread())
        return render(templates, *given)

    await ann.reader.post(action="outputs", method="create", output="picks")
    monkeypatch.setattr(Templates, "render", noting)
    for path in ("/settings/rules", "/settings/outputs", "/settings/outputs/picks", "/settings/devices"):
        assert (await ann.get(path)).status == 200
    assert len(threads) == 4
    assert threading.current_thread() not in threads


class CountsTogether:
    """The maximum number of lists of channels, one for each page, that were made `together`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.together = under_way = 0
        counts = Channels.distinct_counts

        async def noting(channels: Channels, user: str) -> Any:
            nonlocal under_way
            under_way += 1
            self.together = max(self.together, under_way)
            try:
                return await counts(channels, user)
            finally:
                under_way -= 1

        monkeypatch.setattr(Channels, "distinct_counts", noting)


async def nothing_found(*_: Any) -> SearchAnswer:
    return SearchAnswer([])


@pytest.mark.parametrize(
    ("path", "action", "status"),
    [
        ("/channels", "", 200),
        ("/follow?q=https://slow.example/", "", 200),
        ("/channels", "/channels", 400),
        ("/channels", "/channels/order", 303),
        ("/settings/devices", "/settings/devices", 404),
    ],
)
async def test_few_pages_of_a_user_are_made_at_a_time(
    real_redis: Redis, monkeypatch: pytest.MonkeyPatch, path: str, action: str, status: int
) -> None:
    """Sixteen with 4,000 channels each blocked the event loop for seconds; `action` is a form's address."""
    monkeypatch.setattr(Search, "feeds", nothing_found)
    async with instance(real_redis, base_url=ADDRESS) as server:
        ann = await reading(server, "ann", "home", "work")
        page = await ann.get(path)
        seen = CountsTogether(monkeypatch)
        sent = {"name": "x" * 1000, "also": "no such channel"}
        replies = await asyncio.gather(
            *(ann.browser.submit(page, action, **sent) if action else ann.get(path) for _ in range(16))
        )
        await ann.browser.aclose()
    assert [reply.status for reply in replies] == [status] * 16
    assert seen.together in {1, 2}


async def test_an_order_names_each_channel_once(real_redis: Redis) -> None:
    """Repeated names count once, and unknown ones are ignored."""
    async with instance(real_redis, base_url=ADDRESS) as server:
        ann = await reading(server, "ann", "home", "work", "last")
        page = await ann.get("/channels")
        wished = ",".join(["last", "none", *["work"] * 9000])
        assert (await ann.browser.submit(page, "/channels/order", order=wished)).status == 303
        listed = await server.channels.list("ann")
        await ann.browser.aclose()
    assert [one.uid for one in listed if one.uid in {"home", "work", "last"}] == ["home", "last", "work"]


async def test_slow_feeds_leave_a_user_their_other_pages(ann: ReadingVisitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are more of them than pages that are made at a time."""
    asked, answered = asyncio.Semaphore(0), asyncio.Event()

    async def waiting(*_: Any) -> Any:
        asked.release()
        await answered.wait()
        return Feed("https://slow.example/feed", "rss")

    monkeypatch.setattr(Search, "feed_at", waiting)
    slow = [asyncio.create_task(ann.get("/follow/preview?url=https://slow.example/feed")) for _ in range(3)]
    for _ in slow:
        await asked.acquire()
    assert (await ann.get("/channels")).status == 200
    answered.set()
    assert [page.status for page in await asyncio.gather(*slow)] == [200] * 3
