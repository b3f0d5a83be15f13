"""Posts are completed from their authors' pages and from the posts they refer to, after they can be read."""

from __future__ import annotations

from typing import Any

import orjson

from microsub.delivery.look_ups import Completing
from microsub.delivery.stage import Stages
from microsub.feeds.events import Events
from microsub.redis.protocol import Redis
from tests.support.parsing import PARSER
from tests.support.polling import World
from tests.support.web import Answer, Publisher

HTML = [("Content-Type", "text/html; charset=utf-8")]
HOST = "ann.test"
ABOUT = (
    b'<p class="h-card"><a class="u-url p-name" rel="me" href="/about">Ann</a><img class="u-photo" src="/a.png"></p>'
)
PEARS = b'<article class="h-entry"><h1 class="p-name">Pears</h1><p class="e-content">They are ripe.</p></article>'


def likes(*texts: str) -> Answer:
    """A page of posts that give their author only as a URL, and like one page."""
    like = '<a class="u-author" href="/about"></a><a class="u-like-of" href="http://bob.test:PORT/pears">Pears</a>'
    posts = "".join(
        f'<div class="h-entry"><a class="u-url" href="/{number}"></a><p class="e-content">{text}</p>{like}</div>'
        for number, text in enumerate(texts)
    )
    return Answer(f'<title>Notes</title><div class="h-feed">{posts}</div>'.encode(), headers=HTML)


def serve(site: Publisher, *texts: str) -> str:
    page = likes(*texts)
    site.serve("/about", Answer(ABOUT, headers=HTML))
    site.serve("/pears", Answer(PEARS, headers=HTML))
    return site.serve("/", Answer(page.body.replace(b"PORT", str(site.port).encode()), headers=HTML))


def looking_up(it: World) -> Stages:
    """The stages of a worker that performs look-ups."""
    return it.make_stages(Completing(it.fetcher, PARSER))


async def posts(it: World) -> list[dict[str, Any]]:
    """The posts in alice's timeline."""
    ids = [row.id for row in await it.rows()]
    return [orjson.loads(data) for (data,) in await it.items.fields(ids, ["Data"])]


async def test_posts_are_completed_when_they_are_there_already(redis: Redis, site: Publisher, it: World) -> None:
    """Posts can be read first; author and target are added later, each requested once for all look-ups."""
    serve(site, "one", "two", "three")
    feed = await it.follow(site.url("/", HOST))
    await it.poll(feed)
    about, pears = site.url("/about", HOST), site.url("/pears", "bob.test")
    for post in await posts(it):
        assert post["author"] == {"type": "card", "url": about}
        assert "refs" not in post
    rows = await it.rows()
    await it.timelines.mark_read("alice", "home", [rows[0].id], it.clock())
    assert site.count("/about") == site.count("/pears") == 0

    await looking_up(it).run_once()
    found = await posts(it)
    assert len(found) == 3
    for post in found:
        assert post["author"] == {"type": "card", "name": "Ann", "url": about, "photo": site.url("/a.png", HOST)}
        assert post["refs"][pears]["name"] == "Pears"
    assert site.count("/about") == 1
    after = [(row.id, row.score, row.is_read) for row in await it.rows()]
    assert after == [(row.id, row.score, place == 0) for place, row in enumerate(rows)]
    modified = [event.changed for event in await Events(it.redis).since("0") if event.kind == "post_modified"]
    assert modified == [("author", "refs")] * 3


async def test_a_poll_does_not_undo_look_ups(site: Publisher, it: World) -> None:
    """The same posts in a changed document aren't edits, and an edited post is completed again."""
    serve(site, "one", "two")
    feed = await it.follow(site.url("/", HOST))
    await it.poll(feed)
    stages = looking_up(it)
    await stages.run_once()
    before = await posts(it)
    serve(site, "one", "two", "three")
    result = await it.poller.poll(feed.id)
    assert (result.new, result.updated) == (1, 0)
    await stages.run_once()
    assert [post for post in await posts(it) if post["content"]["text"] != "three"] == before

    serve(site, "one, edited", "two", "three")
    result = await it.poller.poll(feed.id)
    assert (result.new, result.updated) == (0, 1)
    await stages.run_once()
    edited = next(post for post in await posts(it) if post["content"]["text"] == "one, edited")
    assert edited["author"]["name"] == "Ann"
    assert edited["refs"]


async def test_a_look_up_doesnt_overwrite_an_edit(site: Publisher, it: World) -> None:
    """A look-up for an old version doesn't overwrite the new one."""
    serve(site, "I agree.")
    feed = await it.follow(site.url("/", HOST))
    await it.poll(feed)
    serve(site, "I disagree.")
    await it.poll(feed)
    stages = looking_up(it)
    await stages.run_once()
    (post,) = await posts(it)
    assert post["content"]["text"] == "I disagree."
    assert post["author"]["name"] == "Ann"
    assert await stages.run_once() == 0


async def test_look_ups_that_fail_leave_the_posts(site: Publisher, it: World) -> None:
    """If a page is unreachable or says nothing, the posts stay as they are, and no message remains."""
    serve(site, "one")
    site.serve("/about", Answer(status=500))
    site.serve("/pears", Answer(b"\x00\x01", headers=HTML))
    feed = await it.follow(site.url("/", HOST))
    await it.poll(feed)
    before = await posts(it)
    stages = looking_up(it)
    await stages.run_once()
    assert await posts(it) == before
    assert await stages.run_once() == 0
