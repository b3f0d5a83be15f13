"""Search, preview, discovery and polling share fetched documents: no second request within the time to live."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from microsub.base.errors import InvalidRequest
from microsub.cache import CachingFetcher
from microsub.cache.redis_storage import FeedCopies
from microsub.configuration.model import default_settings
from microsub.discovery.directory import Directory
from microsub.discovery.search import Search
from microsub.redis.protocol import Redis
from tests.support.polling import World, dated, rss, world
from tests.support.waiting import wait_until
from tests.support.web import Answer, Publisher, publisher

HOUR = 3600.0


@dataclass
class Shared:
    """A world whose poller and search use the same cache, as separate processes do."""

    it: World
    site: Publisher

    def door(self) -> CachingFetcher:
        return CachingFetcher(FeedCopies(self.it.redis), self.it.fetcher, keep=HOUR, clock=self.it.clock)

    def search(self) -> Search:
        return Search(self.door(), Directory(self.it.feeds, default_settings), self.it.parser)

    async def preview(self, url: str) -> list[str]:
        return [item["name"] for item in await self.search().preview(url, self.it.clock())]

    async def found(self, query: str) -> list[str]:
        return [link.url for link in (await self.search().feeds(query, self.it.clock())).feeds]


@asynccontextmanager
async def shared(redis: Redis) -> AsyncIterator[Shared]:
    async with publisher() as site, world(redis) as it:
        made = Shared(it, site)
        it.poller.fetcher = made.door()
        yield made


async def test_from_search_to_the_first_poll_with_one_request(redis: Redis) -> None:
    """Searching for a feed, previewing it and following it within minutes costs its publisher one request."""
    async with shared(redis) as here:
        url = here.site.serve_document("/feed", rss(dated(3)))
        assert await here.found(url) == [url]
        assert await here.preview(url) == ["Post 3", "Post 2", "Post 1"]
        here.it.clock.advance(200)
        feed = await here.it.follow(url)
        result = await here.it.poll(feed)
        assert (result.outcome, result.new) == ("changed", 3)
        assert len(here.site.asked) == 1
        record = await here.it.record(feed)
        assert record.etag is not None
        assert record.body_hash is not None
        await here.it.poll(feed)
        assert here.site.asked[1].headers["if-none-match"] == record.etag


async def test_the_page_is_requested_once(redis: Redis) -> None:
    """Searching for a site, previewing it and previewing its feed takes one request each for page and feed."""
    async with shared(redis) as here:
        feed = here.site.serve_document("/feed", rss(dated(3)))
        page = b"<html><link rel=alternate type=application/rss+xml href=/feed><p>Hello"
        home = here.site.serve("/", Answer(page, headers=[("Content-Type", "text/html")]))
        for _ in range(2):
            assert await here.found(home) == [feed]
            assert len(await here.preview(home)) == 3
            assert len(await here.preview(feed)) == 3
        assert (here.site.count("/"), here.site.count("/feed")) == (1, 1)


async def test_a_poll_refreshes_what_a_preview_shows(redis: Redis) -> None:
    """After a poll, a preview shows the new document without a request; a poll's 304 also renews the copy."""
    async with shared(redis) as here:
        url = here.site.serve_document("/feed", rss(dated(1)))
        feed = await here.it.follow(url)
        await here.it.poll(feed)
        assert await here.preview(url) == ["Post 1"]
        here.site.serve_document("/feed", rss(dated(2)))
        await here.it.poll(feed)
        assert await here.preview(url) == ["Post 2", "Post 1"]
        here.it.clock.advance(250)
        assert (await here.it.poll(feed)).outcome == "not_modified"
        here.it.clock.advance(250)
        assert await here.preview(url) == ["Post 2", "Post 1"]
        assert len(here.site.asked) == 3


async def test_polls_ask_as_the_schedule_says(redis: Redis) -> None:
    """A poll doesn't use a copy that an earlier poll has processed, however fresh it is."""
    async with shared(redis) as here:
        url = here.site.serve_document("/feed", rss(dated(1)))
        feed = await here.it.follow(url)
        for count in (1, 2, 3):
            await here.it.poll(feed)
            assert len(here.site.asked) == count
        await here.preview(url)
        here.site.serve_document("/feed", rss(dated(2)))
        assert (await here.it.poll(feed)).new == 1


async def test_a_preview_since_the_last_poll_saves_one(redis: Redis) -> None:
    """The document of a reader's preview is stored by the next poll, with its validators, without a request."""
    async with shared(redis) as here:
        url = here.site.serve_document("/feed", rss(dated(1)), etag='"1"')
        feed = await here.it.follow(url)
        await here.it.poll(feed)
        here.it.clock.advance(HOUR)
        here.site.serve_document("/feed", rss(dated(2)), etag='"2"')
        await here.preview(url)
        here.it.clock.advance(100)
        assert (await here.it.poll(feed)).new == 1
        assert (await here.it.record(feed)).etag == '"2"'
        assert len(here.site.asked) == 2


async def test_a_crash_between_copy_and_record_loses_nothing(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the copy has the new validators but the record doesn't, the next poll stores the document."""
    async with shared(redis) as here:
        for number, wait in enumerate((10.0, HOUR)):
            path = f"/feed{number}"
            url = here.site.serve_document(path, rss(dated(1)), etag='"1"')
            feed = await here.it.follow(url, uid=f"home{number}")
            await here.it.poll(feed)
            here.it.clock.advance(HOUR)
            here.site.serve_document(path, rss(dated(2)), etag='"2"')
            with monkeypatch.context() as crash:
                crash.setattr(here.it.poller, "_store", _die)
                with pytest.raises(ZeroDivisionError):
                    await here.it.poll(feed)
            assert (await here.it.record(feed)).etag == '"1"'
            here.it.clock.advance(wait)
            assert (await here.it.poll(feed)).new == 1
            assert (await here.it.record(feed)).etag == '"2"'


async def _die(*_: object, **__: object) -> None:
    raise ZeroDivisionError


async def test_a_304_refers_to_what_the_poll_knows(redis: Redis) -> None:
    """A poll sends its record's validators, not those of a newer copy, because a 304 would hide posts that aren't
    stored.
    """
    async with shared(redis) as here:
        url = here.site.serve_document("/feed", rss(dated(1)), etag='"1"')
        feed = await here.it.follow(url)
        await here.it.poll(feed)
        here.it.clock.advance(HOUR / 2)
        here.site.serve_document("/feed", rss(dated(2)), etag='"2"')
        await here.preview(url)
        here.it.clock.advance(400)
        assert (await here.it.poll(feed)).new == 1
        assert [asked.headers.get("if-none-match") for asked in here.site.asked] == [None, '"1"', '"1"']


async def test_errors_stay_with_the_poll(redis: Redis) -> None:
    """If the publisher fails, a preview shows the older copy, but a poll reports the failure."""
    async with shared(redis) as here:
        url = here.site.serve_document("/feed", rss(dated(1)))
        feed = await here.it.follow(url)
        await here.it.poll(feed)
        here.site.serve("/feed", Answer(status=500))
        here.it.clock.advance(400)
        assert await here.preview(url) == ["Post 1"]
        assert (await here.it.poll(feed)).outcome == "http"
        here.site.serve("/feed", Answer(b"<html>Maintenance", headers=[("Content-Type", "text/html")]))
        assert await here.preview(url) == ["Post 1"]
        assert (await here.it.poll(feed)).outcome == "parse"
        here.site.serve_document("/feed", rss(dated(2)))
        assert (await here.it.poll(feed)).new == 1


async def test_pauses_and_farewells_hold_for_previews_too(redis: Redis) -> None:
    """After a 429 with `Retry-After`, or a 410, neither preview nor poll sends a request."""
    async with shared(redis) as here:
        for path, answer in (
            ("/busy", Answer(status=429, headers=[("Retry-After", "1000")])),
            ("/gone", Answer(status=410)),
        ):
            url = here.site.serve(path, answer)
            for _ in range(2):
                with pytest.raises(InvalidRequest):
                    await here.preview(url)
            feed = await here.it.follow(url)
            result = await here.it.poll(feed)
            assert result.outcome == ("throttled" if path == "/busy" else "gone")
            assert here.site.count(path) == 1
        here.it.clock.advance(1001)
        with pytest.raises(InvalidRequest):
            await here.preview(here.site.url("/busy"))
        assert here.site.count("/busy") == 2


async def test_a_preview_and_a_poll_at_once(redis: Redis) -> None:
    """One request serves both, in any order."""
    async with shared(redis) as here:
        until = asyncio.Event()

        async def held(_asked: object) -> Answer:
            await until.wait()
            return Answer(rss(dated(2)), headers=[("Content-Type", "application/rss+xml")])

        url = here.site.serve("/feed", held)
        feed = await here.it.follow(url)
        work = [asyncio.ensure_future(here.preview(url)), asyncio.ensure_future(here.it.poll(feed))]
        await wait_until(lambda: here.site.asked)
        until.set()
        await asyncio.gather(*work)
        assert len(here.site.asked) == 1
        assert len(await here.it.rows()) == 2
