"""Two documents of a feed, handled at the same time or out of order: the later one counts, and no change is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import orjson
import pytest

from microsub.delivery.look_ups import Completing, LookUpStage
from microsub.delivery.stage import retry
from microsub.feeds.events import Events
from microsub.fetch import FetchFailed, FetchRequest, FetchResult
from microsub.posts.items import Items
from microsub.posts.messages import EntriesFound, ItemIncomplete, ItemsStored
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.server.jobs import STAGES
from microsub.work import DeadLetters, Message, Stream
from tests.support.parsing import PARSER
from tests.support.polling import World, dated, rss
from tests.support.posts import NOON, candidate
from tests.support.redis_wrappers import Between, KilledError, die, once


def storing(it: World, redis: Redis | Between | None = None) -> Callable[[EntriesFound], Awaitable[None]]:
    """The function that stores posts in a process, optionally with its own connection."""
    return it.through(redis or it.redis).ingest.add_found


def message(feed: str, place: int, *texts: str, **changes: Any) -> EntriesFound:
    """The `place`th document of a feed, with one numbered post for each text."""
    posts = tuple(candidate(f"post{n}", text=text, **changes) for n, text in enumerate(texts))
    return EntriesFound(feed, NOON, posts, NOON + place / 1000)


async def text_of(it: World, feed: str) -> str:
    found = await it.items.by_guid(feed, "https://blog.example/post0")
    assert found is not None
    return str(orjson.loads(found["Data"])["content"]["text"])


async def told(it: World) -> list[ItemsStored]:
    rows = await it.redis.command("XRANGE", "stream:{stored}", "-", "+")
    return [
        ItemsStored.of({name.decode(): value for name, value in zip(row[1][::2], row[1][1::2], strict=True)})
        for row in rows
    ]


@pytest.mark.parametrize("late", [1, 2])
async def test_the_later_of_two_documents_counts(it, late):
    """Whichever of them wins the claim, the store has the text of the later document."""
    feed = await it.feeds.ensure("https://blog.example/feed", NOON)
    documents = {1: message(feed.id, 1, "first"), 2: message(feed.id, 2, "second")}
    slow = storing(it, Between(it.redis, once("item_claim", lambda: storing(it)(documents[3 - late]))))
    await slow(documents[late])
    assert await text_of(it, feed.id) == "second"


async def test_a_stale_reading_doesnt_overwrite(it):
    """The second of three documents is slow; the third one confirms the first, and counts."""
    feed = await it.feeds.ensure("https://blog.example/feed", NOON)
    await storing(it)(message(feed.id, 1, "first"))
    slow = storing(it, Between(it.redis, once("item_update", lambda: storing(it)(message(feed.id, 3, "first")))))
    await slow(message(feed.id, 2, "second"))
    assert await text_of(it, feed.id) == "first"


async def test_an_edit_is_queued_after_a_crash_without_its_mark(it):
    """Another worker finds the mark before the edit is written, queues it and removes the mark. The retry queues it."""
    feed = await it.feeds.ensure("https://blog.example/feed", NOON)
    await storing(it)(message(feed.id, 1, "first", "other"))
    edit = message(feed.id, 2, "second", author="https://new.example/")

    async def other_document() -> None:
        await storing(it)(EntriesFound(feed.id, NOON, (candidate("post1", text="edited"),), NOON + 0.003))

    taken = False

    async def before(name: str, _args: Any) -> None:
        nonlocal taken
        if name == "item_update" and not taken:
            taken = True
            await other_document()
        if name == "stream_add":
            raise KilledError

    with pytest.raises(KilledError):
        await storing(it, Between(it.redis, before))(edit)
    count = len(await told(it))
    await storing(it)(edit)
    after = (await told(it))[count:]
    item = await it.items.by_guid(feed.id, "https://blog.example/post0")
    assert [news.edited for news in after] == [(item["ID"],)]
    await storing(it)(edit)
    assert len(await told(it)) == count + 1


@pytest.mark.parametrize("deaths", [1, 2])
async def test_an_undelivered_post_is_new_even_if_edited(it, deaths):
    """Its process dies, and maybe the one that stores the edit, too. For a post in timelines it is only an edit."""
    feed = await it.feeds.ensure("https://blog.example/feed", NOON)
    await storing(it)(message(feed.id, 1, "first"))
    before = len(await told(it))

    documents = [message(feed.id, 2, "first", "new"), message(feed.id, 3, "second", "edited")]
    for document in documents[:deaths]:
        with pytest.raises(KilledError):
            await storing(it, Between(it.redis, once("stream_add", die)))(document)
    await storing(it)(documents[1])
    found = [await it.items.id_of(feed.id, f"https://blog.example/post{number}") for number in (0, 1)]
    [news] = (await told(it))[before:]
    assert set(news.new) == set(found[2 - deaths :])  # after two deaths nobody knows what the second one left behind
    assert {*news.edited, *news.reworded} == set(found)
    assert not await it.items.outbox(feed.id)


class Nobody:
    """A web on which every page is missing."""

    async def fetch(self, request: FetchRequest) -> FetchResult:
        return FetchFailed(request.url, "http", "404", 404)


async def test_results_of_look_ups_are_queued_after_a_crash(it):
    """The author is written and the worker dies before it queues the change: the retry does it."""
    feed = await it.feeds.ensure("https://blog.example/feed", NOON)
    await storing(it)(message(feed.id, 1, "first", incomplete=True))
    item = await it.items.by_guid(feed.id, "https://blog.example/post0")

    class Found(Completing):
        async def complete(self, entry, source=None):
            return replace(entry, author=replace(entry.author, url="https://ann.example/", name="Anna"))

    def look_up(redis: Any) -> LookUpStage:
        completing = Found(Nobody(), PARSER)
        return LookUpStage(it.feeds, Items(redis), completing, Stream(redis, "stored"), it.events, clock=it.clock)

    asked = Message("1-1", ItemIncomplete(item["ID"], item["version"]).to_fields())
    before = len(await told(it))
    with pytest.raises(KilledError):
        await look_up(Between(it.redis, once("stream_add", die)))(asked)
    await look_up(it.redis)(asked)
    assert [news.edited for news in (await told(it))[before:]] == [(item["ID"],)]
    await look_up(it.redis)(asked)
    assert len(await told(it)) == before + 1


async def test_events_after_a_crash_have_the_guid(it):
    """A worker stores a post and an edit and dies; the next one announces both with their guids.

    A post that was deleted meanwhile isn't announced.
    """
    feed = await it.feeds.ensure("https://blog.example/feed", NOON)
    await storing(it)(message(feed.id, 1, "first"))
    last = await Events(it.redis).last()

    edit = message(feed.id, 2, "second", "new", "deleted")
    with pytest.raises(KilledError):
        await storing(it, Between(it.redis, once("stream_add", die)))(edit)
    deleted = await it.items.by_guid(feed.id, "https://blog.example/post2")
    await it.redis.command("DEL", keys.item(deleted["ID"]))
    await storing(it)(message(feed.id, 3, "third"))
    events = await Events(it.redis).since(last)
    assert {event.guid for event in events} == {"https://blog.example/post0", "https://blog.example/post1"}


async def test_a_retried_dead_letter_overwrites_no_later_edit(it):
    """It keeps its place among the documents of its feed."""
    feed = await it.feeds.ensure("https://blog.example/feed", NOON)
    dead = DeadLetters(it.redis)
    await dead.add("entries", Message("", message(feed.id, 1, "first").to_fields()), "it failed", NOON)
    await storing(it)(message(feed.id, 2, "second"))
    assert await retry(dead, await dead.list(), storing(it), STAGES) == []
    assert await dead.count() == 0
    assert await text_of(it, feed.id) == "second"


async def test_a_reverted_edit_stays_reverted_after_a_crash(it, site, monkeypatch):
    """The worker queues the edit and dies; the next poll finds the earlier document, byte for byte."""
    site.serve_document("/feed", rss(dated(2)))
    feed = await it.follow(site.url("/feed", "blog.test"))
    await it.poll(feed)
    site.serve_document("/feed", rss([("post-2", "Edited", dated(2)[0][2]), *dated(1)]))

    with monkeypatch.context() as patch:
        patch.setattr(it.feeds, "settle", die)
        with pytest.raises(KilledError):
            await it.poller.poll(feed.id)
    site.serve_document("/feed", rss(dated(2)))
    await it.poller.poll(feed.id)
    await it.stages.run_once()
    assert '"name":"Post 2"' in (await it.texts())[0]


class Slow:
    """A fetcher that returns the publisher's answer only when `go` is set."""

    def __init__(self, fetcher: Any) -> None:
        self._fetcher = fetcher
        self.asked, self.go = asyncio.Event(), asyncio.Event()

    async def fetch(self, request: FetchRequest) -> FetchResult:
        result: FetchResult = await self._fetcher.fetch(request)
        self.asked.set()
        await self.go.wait()
        return result


@pytest.mark.parametrize("dies", [False, True])
@pytest.mark.parametrize("says", ["", "<description>Taken back</description>"])
async def test_a_stale_poll_announces_no_edit(it, site, monkeypatch, dies, says):
    """One worker has read an edit and is delayed. Another one reads the document without the edit, as before or with
    another description, and ends its poll after the first one, unaware of its edit: the next poll reads the document
    again.
    """
    site.serve_document("/feed", rss(dated(2)))
    feed = await it.follow(site.url("/feed", "blog.test"))
    await it.poll(feed)
    site.serve_document("/feed", rss([("post-2", "Edited", dated(2)[0][2]), *dated(1)]))
    first, second = Slow(it.fetcher), Slow(it.fetcher)
    stale = asyncio.create_task(it.make_poller(fetcher=first).poll(feed.id))  # type: ignore[arg-type]
    await first.asked.wait()
    site.serve_document("/feed", rss(dated(2), extra=says))
    later = asyncio.create_task(it.make_poller(fetcher=second).poll(feed.id))  # type: ignore[arg-type]
    await second.asked.wait()
    with monkeypatch.context() as patch:
        if dies:
            patch.setattr(it.feeds, "settle", die)
        first.go.set()
        assert isinstance((await asyncio.gather(stale, return_exceptions=True))[0], KilledError) == dies
    second.go.set()
    await later
    await it.stages.run_once()
    await it.poll(feed)
    assert '"name":"Post 2"' in (await it.texts())[0]


@pytest.mark.parametrize("dies", [True, False])
@pytest.mark.parametrize("stands_at", ["item_claim", "item_update", "stream_add"])
async def test_an_older_reading_never_replaces_a_newer_one(it, site, stands_at, dies):
    """A worker has read an edit and is delayed before a step of storing it. Another one finds the edit undone and ends
    its poll. Then the first one continues, and loses its lease or dies: apps see the newer reading.
    """
    site.serve_document("/feed", rss(dated(2)))
    feed = await it.follow(site.url("/feed", "blog.test"))
    await it.poll(feed)
    site.serve_document("/feed", rss([("post-2", "Edited", dated(2)[0][2]), *dated(1)]))

    async def meanwhile() -> None:
        site.serve_document("/feed", rss(dated(2)))
        await it.poll(feed)

    late = once(stands_at, meanwhile)

    async def before(name: str, args: Any) -> None:
        if dies and name == "feed_write":
            raise KilledError
        await late(name, args)

    ends = await asyncio.gather(it.through(Between(it.redis, before)).poller.poll(feed.id), return_exceptions=True)
    assert isinstance(ends[0], KilledError) == dies
    await it.stages.run_once()
    assert '"name":"Post 2"' in (await it.texts())[0]
    await it.poll(feed)
    assert '"name":"Post 2"' in (await it.texts())[0]


async def test_an_overtaken_reading_changes_nothing(it, site):
    """A worker is delayed with a document until another one has read a newer one: nothing of the old one is written,
    neither posts nor the feed.
    """
    site.serve_document("/feed", rss(dated(2)))
    feed = await it.follow(site.url("/feed", "blog.test"))
    await it.poll(feed)
    site.serve_document("/feed", rss([("post-2", "Edited", dated(2)[0][2]), *dated(1)], title="Edited"))
    slow = Slow(it.fetcher)
    stale = asyncio.create_task(it.make_poller(fetcher=slow).poll(feed.id))  # type: ignore[arg-type]
    await slow.asked.wait()
    site.serve_document("/feed", rss(dated(2)))
    await it.poll(feed)
    record = await it.record(feed)
    slow.go.set()
    await stale
    await it.stages.run_once()
    assert '"name":"Post 2"' in (await it.texts())[0]
    assert await it.record(feed) == record
