"""The cache of wire JSON. Tests of client tracking run on a real Redis."""

import asyncio
from datetime import UTC, datetime, timedelta, timezone

import orjson
import pytest

from microsub.posts.items import Items
from microsub.posts.packing import packed
from microsub.redis import keys
from microsub.redis.tracking import Tracker
from microsub.timelines.item_cache import UNTRACKED_LIFE, ItemCache
from tests.support.waiting import wait_until


class Source:
    """Items in a dict, without their braces; counts look-ups, and blocks them while `gate` is closed."""

    def __init__(self, **data: bytes):
        self.all = data
        self.asked: list[list[str]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def texts_up_to(self, ids, most, *, within_reach):
        self.asked.append(list(ids))
        found = [b"{" + self.all[item_id] if item_id in self.all else None for item_id in ids]
        await self.gate.wait()
        return [len(data) if data is not None and len(data) > most else data for data in found]


def text(word: str) -> bytes:
    """JSON of an item with this text."""
    return b'{"name":"%s"}' % word.encode()


def cache_of(source, max_bytes=100_000) -> ItemCache:
    cache = ItemCache(source, None, max_bytes)
    cache.tracked()
    return cache


async def test_it_evicts_the_least_recently_used():
    """The limit counts bytes; a hit makes an entry the most recent one."""
    source = Source(**{name: name.encode() * 1000 for name in "abcd"})
    cache = cache_of(source, max_bytes=3 * 1150)
    await cache.get(["a", "b", "c"])
    await cache.get(["a"])
    await cache.get(["d"])
    assert cache._kept._held <= 3 * 1150
    source.asked.clear()
    await cache.get(["a", "c", "d"])
    assert source.asked == []
    await cache.get(["b"])
    assert source.asked == [["b"]]


@pytest.mark.parametrize("report", [["item:a"], None])
async def test_a_change_reported_during_a_look_up_wins(report):
    """A value that was read before the report may be outdated: it is returned, but never kept."""
    source = Source(a=b"old", b=b"B")
    cache = cache_of(source)
    source.gate.clear()
    reading = asyncio.create_task(cache.get(["a", "b"]))
    await wait_until(lambda: source.asked)
    source.all["a"] = b"new"
    cache.changed(report)
    source.gate.set()
    assert await reading == [b"old", b"B"]
    assert await cache.get(["a"]) == [b"new"]


async def test_a_look_up_that_outlives_the_connection_is_not_kept():
    """Anything may have changed between the loss of the connection and the next report."""
    source = Source(a=b"old")
    cache = cache_of(source)
    source.gate.clear()
    reading = asyncio.create_task(cache.get(["a"]))
    await wait_until(lambda: source.asked)
    cache.untracked()
    cache.tracked()
    source.all["a"] = b"new"
    source.gate.set()
    await reading
    assert await cache.get(["a"]) == [b"new"]


async def test_a_failing_look_up_leaves_no_trace():
    """The error reaches the caller, and the next look-up works."""
    source = Source(a=b"A")
    cache = cache_of(source)
    working, source.texts_up_to = source.texts_up_to, None
    with pytest.raises(TypeError):
        await cache.get(["a"])
    source.texts_up_to = working
    assert await cache.get(["a"]) == [b"A"]
    assert not cache._reads


async def test_without_reports_copies_serve_for_seconds_only():
    """A fake Redis has no tracking: an edit is visible after a few seconds."""
    now = 100.0
    source = Source(a=b"old")
    cache = ItemCache(source, None, 1000, clock=lambda: now)
    assert await cache.get(["a"]) == [b"old"]
    source.all["a"] = b"new"
    assert await cache.get(["a"]) == [b"old"]
    now += UNTRACKED_LIFE
    assert await cache.get(["a"]) == [b"new"]


# --- with a real Redis -------------------------------------------------------------------------------------------


@pytest.fixture
async def tracked(real_redis, redis_url):
    """A cache that receives reports of changes, over item 1."""
    await real_redis.command("HSET", keys.item("1"), "Data", text("old"))
    cache = ItemCache(Items(real_redis), Tracker(redis_url, keys.ITEM_PREFIX, retry_every=0.01), 100_000)
    await cache.get(["1"])
    await wait_until(lambda: cache._flush_at is None)
    yield cache
    await cache.aclose()


async def test_a_corrupt_packed_post_is_left_out(real_redis):
    """A page with it would be invalid JSON. The next edit replaces it."""
    frame = packed(b'{"name":"%b"}' % (b"one " * 99))
    posts = {"1": b'{"n":1}', "2": frame[:-5], "3": packed(b'{"n":3}'), "4": frame}
    await real_redis.pipeline([("HSET", keys.item(one), "Data", data) for one, data in posts.items()])
    cache = ItemCache(Items(real_redis), None, 100_000)
    found = await cache.get([*posts])
    assert found == [b'"n":1}', None, b'"n":3}', b'"name":"%b"}' % (b"one " * 99)]
    assert await cache.get([*posts]) == found


async def kill_tracking_connection(redis) -> bool:
    """Whether there was a connection to kill."""
    clients = (await redis.command("CLIENT", "LIST")).decode().splitlines()
    ids = [dict(part.split("=", 1) for part in line.split()) for line in clients]
    found = [client["id"] for client in ids if "B" in client["flags"] and "t" in client["flags"]]
    for client in found:
        await redis.command("CLIENT", "KILL", "ID", client)
    return bool(found)


async def test_an_edit_is_seen_by_the_next_read(tracked, real_redis):
    """Redis reports the write, the copy is dropped, and the next page has the new text."""
    assert await tracked.get(["1"]) == [text("old")[1:]]
    assert "1" in tracked._kept
    await real_redis.command("HSET", keys.item("1"), "Data", text("new"))
    await wait_until(lambda: "1" not in tracked._kept)
    assert await tracked.get(["1"]) == [text("new")[1:]]


async def test_a_lost_connection_flushes_and_is_made_again(tracked, real_redis):
    """Changes without a report are visible, and reports arrive again."""
    await tracked.get(["1"])
    flushed = asyncio.Event()
    before = tracked.untracked
    tracked.untracked = lambda: (before(), flushed.set())
    assert await kill_tracking_connection(real_redis)
    await wait_until(flushed.is_set)
    assert "1" not in tracked._kept
    await wait_until(lambda: tracked._flush_at is None)
    await tracked.get(["1"])
    await real_redis.command("HSET", keys.item("1"), "Data", text("new"))
    await wait_until(lambda: "1" not in tracked._kept)


async def test_a_quiet_connection_is_checked(real_redis, redis_url):
    """Silence is normal; a DBSIZE checks the connection, which stays."""
    await real_redis.command("HSET", keys.item("1"), "Data", text("old"))
    # The connection must not be given up, however slow this machine is.
    tracker = Tracker(redis_url, keys.ITEM_PREFIX, ping_every=0.01, patience=600.0, retry_every=0.01)
    cache = ItemCache(Items(real_redis), tracker, 100_000)
    losses = []
    before = cache.untracked
    cache.untracked = lambda: (before(), losses.append(1))

    async def pings() -> int:
        stats = (await real_redis.command("INFO", "commandstats")).decode()
        return int(stats.partition("cmdstat_dbsize:calls=")[2].partition(",")[0] or 0)

    start = await pings()
    await cache.get(["1"])
    await wait_until(lambda: cache._flush_at is None)

    async def several() -> bool:
        return await pings() >= start + 3

    await wait_until(several)
    assert not losses
    await cache.aclose()


async def test_no_item_is_from_the_future() -> None:
    """A clock that was ahead when a post was stored leaves `published` and `updated` of the present, in any zone."""
    now, late = datetime(2026, 11, 24, 12, tzinfo=UTC), timedelta(hours=1)
    zone = timezone(-timedelta(hours=12))

    def dated(**times: datetime) -> bytes:
        return orjson.dumps({"type": "entry", **{name: time.isoformat() for name, time in times.items()}})[1:]

    source = Source(
        a=dated(published=now + late, updated=now + 400 * late),
        b=dated(published=(now + late).astimezone(zone), updated=now - late),
        c=dated(published=(now - late).astimezone(zone)),
        d=dated(),
    )
    cache = ItemCache(source, None, 100_000, now=now.timestamp)
    found = [orjson.loads(b"{" + data) for data in await cache.get(["a", "b", "c", "d"])]
    present = now.isoformat()
    assert [item.get("published") for item in found] == [
        *(present, present, (now - late).astimezone(zone).isoformat(), None),
    ]
    assert [item.get("updated") for item in found] == [present, (now - late).isoformat(), None, None]
