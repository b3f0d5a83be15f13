"""Posts that can't be stored, and feeds with corrupt data: neither stops anything else."""

from __future__ import annotations

from microsub.delivery.stage import retry
from microsub.redis import keys
from microsub.server.jobs import STAGES
from microsub.work import DeadLetters
from tests.support.polling import World, dated, rss
from tests.support.web import Publisher

Entries = list[tuple[str, str, str | None]]


def edited(entries: Entries) -> Entries:
    return [(guid, "Edited" if guid == "post-2" else title, date) for guid, title, date in entries]


async def test_a_post_that_cannot_be_stored_stops_no_other(it: World, site: Publisher) -> None:
    """The stored post is corrupt, so its edit becomes a dead letter. Other new posts of the document arrive, and the
    document counts as read. Once the post is repaired, the letter can be retried.
    """
    site.serve_document("/feed", rss(dated(3)))
    feed = await it.follow(site.url("/feed", "blog.test"))
    await it.poll(feed)
    item = (await it.rows())[1].id
    author = await it.redis.command("HGET", keys.item(item), "author")
    await it.redis.command("HSET", keys.item(item), "author", b"\xff")
    site.serve_document("/feed", rss(edited(dated(5))))
    assert (await it.poll(feed)).new == 2
    dead = DeadLetters(it.redis)
    (letter,) = await dead.list()
    assert (letter.stage, letter.why.partition(":")[0]) == ("entries", "StoreDamaged")
    assert len(await it.rows()) == 5
    assert (await it.poll(feed)).outcome in {"unchanged", "not_modified"}
    (refused,) = await retry(dead, [letter], it.ingest.add_found, STAGES)
    assert "failed again: StoreDamaged" in refused
    assert await dead.count() == 1
    await it.redis.command("HSET", keys.item(item), "author", author)
    assert await retry(dead, [letter], it.ingest.add_found, STAGES) == []
    assert await dead.count() == 0
    assert ['"name":"Edited"' in text for text in await it.texts()] == [False] * 3 + [True, False]


async def test_a_feed_whose_record_is_corrupt_is_tried_again_later(it: World, site: Publisher) -> None:
    """Other feeds of the host are polled, and the feed isn't retried in an endless loop."""
    feeds = []
    for path in ("/corrupt", "/sound"):
        site.serve_document(path, rss(dated(3)))
        feeds.append(await it.follow(site.url(path, "blog.test"), path.strip("/")))
    await it.redis.command("HSET", keys.feed(feeds[0].id), "failures", "many")
    while await it.worker.run_once():
        pass
    assert len(await it.rows("sound")) == 3
    assert site.count("/corrupt") == 0
    await it.redis.command("HDEL", keys.feed(feeds[0].id), "failures")
    it.clock.advance(3700)
    await it.worker.run_once()
    assert len(await it.rows("corrupt")) == 3
