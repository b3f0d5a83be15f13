"""Feeds that list known posts under new guids: a post stays what it is, and two posts stay two."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from microsub.posts.garbage import candidates, delete
from microsub.redis import keys
from tests.support.polling import World
from tests.support.redis_wrappers import Between, KilledError, once
from tests.support.web import Publisher


@dataclass(frozen=True)
class E:
    """An entry of a feed."""

    guid: str
    link: str = "/a"
    title: str = "One"
    text: str = "All about it"
    day: int = 1
    hour: int = 12


def rss(*entries: E) -> bytes:
    items = "".join(
        f"<item><guid isPermaLink='false'>{one.guid}</guid>"
        f"{f'<link>http://posts.test{one.link}</link>' if one.link else ''}"
        f"<title>{one.title}</title><description>{one.text}</description>"
        f"<pubDate>{one.day:02d} Jan 2024 {one.hour}:00:00 GMT</pubDate></item>"
        for one in entries
    )
    return (
        f"<rss version='2.0'><channel><title>B</title><link>http://posts.test/</link>{items}</channel></rss>".encode()
    )


def blog(prefix: str, count: int = 6, **changes: str) -> list[E]:
    return [E(f"{prefix}{n}", f"/{n}", f"Post {n}", f"About {n}", n, **changes) for n in range(count, 0, -1)]


async def polled(it: World, site: Publisher, *documents: Sequence[E]) -> list[str]:
    """The ids in the timeline after these documents, newest first."""
    feed = None
    for entries in documents:
        site.serve_document("/feed", rss(*entries))
        if feed is None:
            feed = await it.follow(site.url("/feed", "blog.test"))
        await it.poll(feed)
    return [row.id for row in await it.rows()]


async def test_posts_whose_guids_change_stay_what_they_are(it: World, site: Publisher) -> None:
    """Ids, read and saved state stay, nothing is new; a later edit under the new guid is an edit."""
    before = await polled(it, site, blog("old-"))
    await it.timelines.mark_read("alice", "home", before[1:3], it.clock())
    after = await polled(it, site, blog("new-"))
    assert after == before
    assert [row.is_read for row in await it.rows()] == [False, True, True, False, False, False]
    feed = await it.feeds.find(site.url("/feed", "blog.test"))
    assert feed is not None
    assert await it.items.id_of(feed, "new-6") == before[0]
    edited = [E("new-6", "/6", "Better title", "Other words", 6), *blog("new-")[1:]]
    assert await polled(it, site, edited) == before
    assert "Better title" in (await it.texts())[0]
    assert (await it.check()).is_clean


@pytest.mark.parametrize(
    ("change", "count"),
    [
        ({"text": "Other words"}, 1),
        ({"title": "Another title"}, 1),
        ({"hour": 18}, 1),
        ({"day": 2}, 2),
        ({"title": "Another title", "text": "Other words"}, 2),
        ({"text": "Other words", "day": 2}, 2),
        ({"link": "/b"}, 2),
    ],
)
async def test_a_new_guid_with_same_link_and_text_is_known(
    it: World, site: Publisher, change: dict[str, str], count: int
) -> None:
    """The same link, and the same text or the same title and time; a daily page has another text every day."""
    other = E("x", "/x", "Two", "Else", 3)
    assert len(await polled(it, site, [other, E("old")], [other, E("new", **change)])) == count + 1  # type: ignore[arg-type]


async def test_two_entries_with_one_link_stay_two(it: World, site: Publisher) -> None:
    """Both new in one document, and one new beside a known one."""
    assert len(await polled(it, site, [E("1"), E("2")])) == 2
    assert len(await polled(it, site, [E("1"), E("2"), E("3")])) == 3


@pytest.mark.parametrize("link", ["/", "/daily"])
async def test_entries_with_one_shared_link_stay_distinct(it: World, site: Publisher, link: str) -> None:
    """Their site's or a daily page's. New ones are new; if all guids change, nothing is doubled."""
    days = [E(f"d{n}", link, "The daily", f"Words of day {n}", n) for n in range(1, 9)]
    before = await polled(it, site, days[3::-1], days[4:0:-1])
    assert len(before) == 5
    changed = [E(f"new-{one.guid}", one.link, one.title, one.text, one.day) for one in days[4:0:-1]]
    assert await polled(it, site, changed) == before
    assert len(await polled(it, site, [days[6]])) == 6


async def test_an_announcement_that_is_published_again_is_new(it: World, site: Publisher) -> None:
    """With the same words and link, weeks later, alone or beside others; one without a date isn't new."""
    meetings = [E(f"m{day}", "/meeting", "Meeting", "Come all", day) for day in (1, 15, 29)]
    assert len(await polled(it, site, *([one] for one in meetings))) == 3
    site.serve_document("/feed", rss(meetings[2], *blog("x")))
    feed_id = await it.feeds.find(site.url("/feed", "blog.test"))
    assert feed_id is not None
    await it.poll_id(feed_id)
    assert len(await polled(it, site, [E("m30", "/meeting", "Meeting", "Come all", 31), *blog("x")])) == 10
    undated = rss(E("n1", "/n")).replace(b"pubDate", b"noDate")
    for document in (undated, undated.replace(b"n1", b"n2")):
        site.serve_document("/feed", document)
        await it.poll_id(feed_id)
    assert len(await it.rows()) == 11


async def test_new_guids_with_one_date_double_no_post(it: World, site: Publisher) -> None:
    moved = [E(f"new-{n}", f"/{n}", f"Post {n}", f"About {n}", 30) for n in range(6, 0, -1)]
    assert len(await polled(it, site, blog("old-"), moved)) == 6


async def test_posts_without_links_survive_new_guids(it: World, site: Publisher) -> None:
    """If their words and times are the same; a word changed makes a new one."""
    notes = [E(f"a{n}", "", f"Note {n}", f"Words {n}", n) for n in range(4, 0, -1)]
    before = await polled(it, site, notes)
    renamed = [E(f"b{one.guid}", "", one.title, one.text, one.day) for one in notes]
    assert await polled(it, site, renamed) == before
    assert len(await polled(it, site, [E("c", "", "Note 4", "Other words", 4), *renamed[1:]])) == 5


async def test_an_old_guid_that_comes_back_is_the_same_post(it: World, site: Publisher) -> None:
    """Alone. Beside the new guid it is another post."""
    before = await polled(it, site, blog("old-"), blog("new-"), blog("old-"))
    assert len(before) == 6
    assert await polled(it, site, [*blog("new-"), E("old-6", "/6", "Something else", "Entirely", 7)]) != before
    assert len(await it.rows()) == 7


async def test_ever_changing_guids_leave_at_most_two_each(it: World, site: Publisher) -> None:
    before = await polled(it, site, *(blog(f"{n}-") for n in range(5)))
    assert len(before) == 6
    feed = await it.feeds.find(site.url("/feed", "blog.test"))
    assert feed is not None
    assert await it.redis.command("HLEN", keys.feed_guids(feed)) == 12
    # Both become tombstones with the post.
    await delete(it.redis, await candidates(it.redis, before[:1]), it.clock())
    assert await it.redis.command("ZCARD", keys.feed_tombstones(feed)) == 2


async def test_two_workers_that_find_new_guids_give_each_post_one(it: World, site: Publisher) -> None:
    before = await polled(it, site, blog("old-"))
    site.serve_document("/feed", rss(*blog("new-")))
    feed_id = await it.feeds.find(site.url("/feed", "blog.test"))
    assert feed_id is not None
    slow = it.through(Between(it.redis, once("guid_change", lambda: it.poller.poll(feed_id))))
    await asyncio.gather(slow.poller.poll(feed_id), it.poller.poll(feed_id))
    await it.stages.run_once()
    assert [row.id for row in await it.rows()] == before


async def test_a_site_that_moves_to_www_keeps_its_posts(it: World, site: Publisher) -> None:
    before = await polled(it, site, blog("http://posts.test/"))
    document = rss(*blog("http://www.posts.test/")).replace(b"<link>http://posts", b"<link>http://www.posts")
    site.serve_document("/feed", document)
    feed_id = await it.feeds.find(site.url("/feed", "blog.test"))
    assert feed_id is not None
    await it.poll_id(feed_id)
    assert [row.id for row in await it.rows()] == before


async def test_a_daily_page_is_new_each_day_also_after_a_restart(it: World, site: Publisher) -> None:
    """Yesterday's entry is processed again, for lack of fingerprints, and still shows that the link is shared."""
    days = [E(f"d{n}", "/daily", "The daily", "The same words", n) for n in range(1, 5)]
    assert len(await polled(it, site, days[1::-1])) == 2
    feed_id = await it.feeds.find(site.url("/feed", "blog.test"))
    assert feed_id is not None
    await it.redis.command("DEL", keys.feed_fingerprints(feed_id))
    assert len(await polled(it, site, days[2:0:-1])) == 3


async def test_a_corrupt_post_stops_no_new_one(it: World, site: Publisher) -> None:
    before = await polled(it, site, blog("old-"))
    await it.redis.command("HSET", keys.item(before[0]), "score", "many")
    await it.redis.command("HSET", keys.item(before[1]), "Data", b"{")
    changed = [E("new-5", "/5", "Post 5", "Other words", 5), E("new-6", "/6", "Post 6", "About 6", 6), E("x", "/x")]
    site.serve_document("/feed", rss(*changed))
    feed_id = await it.feeds.find(site.url("/feed", "blog.test"))
    assert feed_id is not None
    assert (await it.poll_id(feed_id)).new == 3


async def test_a_worker_killed_while_guids_change_doubles_nothing(it: World, site: Publisher) -> None:
    """Between any two round trips; the next poll ends what it has begun."""
    before = await polled(it, site, blog("old-"))
    feed_id = await it.feeds.find(site.url("/feed", "blog.test"))
    assert feed_id is not None
    step, killed = 0, True
    while killed:
        site.serve_document("/feed", rss(*blog(f"{step}-")))
        left, killed = step, False

        async def die_at_step(_name: str, _args: Any) -> None:
            nonlocal left, killed
            left -= 1
            if left < 0:
                killed = True
                raise KilledError

        with suppress(KilledError):
            await it.through(Between(it.redis, die_at_step)).poller.poll(feed_id)
        await it.poll_id(feed_id)
        assert [row.id for row in await it.rows()] == before
        step += 1
    assert step > 8
    assert (await it.check()).is_clean
