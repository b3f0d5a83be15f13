"""Entries that a feed lists again aren't processed again, and no reader sees a difference."""

from __future__ import annotations

from random import Random

import pytest

from microsub.feeds.record import KEEP_FINGERPRINTS
from microsub.posts import garbage
from microsub.redis import keys
from microsub.redis.protocol import Redis
from tests.support.polling import World, dated, rss
from tests.support.web import Publisher

Entry = tuple[str, str, str | None]
_CHANGES = 12


async def _seen(it: World, user: str) -> list[tuple[str, str, bool]]:
    """Score, title and read flag of the whole timeline, without the ids, which only order posts with the same score."""
    rows = await it.rows(user)
    names = [text.partition('"name":"')[2].partition('"')[0] for text in await it.texts(user)]
    return sorted((row.score, name, row.is_read) for row, name in zip(rows, names, strict=True))


def _changed(chance: Random, entries: list[Entry], number: int) -> list[Entry]:
    """The next version of the document: with new posts, edits, an old entry, another order or a shared guid."""
    entries = list(entries)
    place = chance.randrange(len(entries))
    guid, title, date = entries[place]
    match chance.randrange(6):
        case 0:
            entries = [*dated(2, 30 + 2 * number), *entries][:9]
        case 1:
            entries[place] = (guid, f"{title}, edited in {number}", date)
        case 2:
            entries.append(dated(1, chance.randrange(1, 20))[0])
        case 3:
            entries[place], entries[0] = entries[0], entries[place]
        case 4:
            entries.insert(place, (f"same-time-{number}", f"At the same time {number}", date))
        case 5:
            entries.pop(place)
    return entries or dated(1)


@pytest.mark.parametrize("seed", range(6))
async def test_the_same_timelines_with_and_without_marks(
    real_redis: Redis, site: Publisher, real: World, seed: int
) -> None:
    """Of two feeds with the same documents, one is always processed in full: their followers see the same."""
    chance = Random(seed)
    feeds = {user: await real.follow(site.url(f"/{user}", "blog.test"), user) for user in ("marked", "in-full")}
    entries = dated(8, 10)
    for number in range(_CHANGES):
        for user, feed in feeds.items():
            if user == "in-full":
                await real_redis.command("DEL", keys.feed_fingerprints(feed.id))
            site.serve_document(f"/{user}", rss(entries))
            await real.poll(feed)
        assert await _seen(real, "marked") == await _seen(real, "in-full")
        if number == _CHANGES // 2:
            for user in feeds:
                await _delete_oldest(real, user)
        entries = _changed(chance, entries, number)


async def _delete_oldest(it: World, user: str) -> None:
    """Delete the oldest post, as the sweep does with posts that no timeline refers to."""
    oldest = (await it.rows(user))[-1].id
    await it.timelines.remove(user, "home", [oldest], it.clock())
    await garbage.condemn(it.redis, [oldest], it.clock())
    assert await garbage.delete(it.redis, await garbage.candidates(it.redis, [oldest]), it.clock()) == 1


async def test_everything_is_read_once_a_day(redis: Redis, site: Publisher, it: World) -> None:
    """The lifetime of the fingerprints starts with the first ones, and isn't extended by later ones."""
    feed = await it.follow(site.serve_document("/feed", rss(dated(3))))
    await it.poll(feed)
    await redis.command("PEXPIRE", keys.feed_fingerprints(feed.id), 5_000_000)
    site.serve_document("/feed", rss(dated(4)))
    await it.poll(feed)
    assert 4_000 < await redis.command("TTL", keys.feed_fingerprints(feed.id)) <= 5_000 < KEEP_FINGERPRINTS


async def test_fingerprints_of_another_document_are_ignored(site: Publisher, it: World) -> None:
    """Fingerprints are valid only together with the hash of their document."""
    feed = await it.follow(site.serve_document("/feed", rss(dated(3))))
    await it.poll(feed)
    record = await it.record(feed)
    assert await it.feeds.fingerprints(record)
    await it.feeds.update(feed.id, {"body_hash": "00" * 32})
    assert await it.feeds.fingerprints(await it.record(feed)) is None
