"""Real feeds, served from loopback, for two users: every entry once, in order, and one request per feed and poll."""

from __future__ import annotations

from pathlib import Path

import pytest

from microsub.redis.protocol import Redis
from tests.support.polling import World, world
from tests.support.web import Publisher, publisher

CORPUS = Path(__file__).parents[3] / "shared/corpus/feeds"

pytestmark = pytest.mark.skipif(not CORPUS.is_dir(), reason=f"the corpus isn't here: {CORPUS}")


def _serve(site: Publisher) -> list[str]:
    files = sorted(CORPUS.iterdir())
    return [site.serve_document(f"/{file.name}", file.read_bytes(), "text/xml") for file in files]


async def _poll_all(it: World) -> None:
    while await it.worker.run_once():
        pass


async def _count(it: World, user: str, uid: str) -> int:
    return int(await it.redis.command("ZCARD", f"user:{{{user}}}:zchannel:{uid}:posts"))


async def test_every_feed_in_its_own_channel(real_redis: Redis) -> None:
    """255 entries in eight channels, for both users; the second poll is conditional and adds nothing."""
    async with publisher() as site, world(real_redis) as it:
        urls = _serve(site)
        feeds = [await it.follow(url, user, f"c{n}") for n, url in enumerate(urls) for user in ("alice", "bob")]
        for requests in (1, 2):
            await _poll_all(it)
            for user in ("alice", "bob"):
                assert sum([await _count(it, user, f"c{n}") for n in range(len(urls))]) == 255
            assert [site.count(f"/{url.rpartition('/')[2]}") for url in urls] == [requests] * len(urls)
            await it.make_due(*feeds)
        assert all("if-none-match" in asked.headers for asked in site.asked[len(urls) :])


async def test_all_feeds_in_one_channel(real_redis: Redis) -> None:
    """230 entries: two of the feeds carry the same 25 posts of one blog. Newest first, ties in document order."""
    async with publisher() as site, world(real_redis) as it:
        for url in _serve(site):
            await it.follow(url)
        await _poll_all(it)
        assert await _count(it, "alice", "home") == 230
        rows = await it.rows(limit=100)
        scores = [float(row.score) for row in rows]
        assert scores == sorted(scores, reverse=True)
