"""The store on a Redis Cluster: no script touches two slots, everything works as on a single server."""

import asyncio

import pytest

from microsub.errors import StoreUnavailable
from microsub.feeds.store.queue import Schedule
from microsub.feeds.store.record import Feeds
from microsub.migrations import migrate
from microsub.posts.store.items import Items
from microsub.redis import keys
from microsub.redis.connect import connect
from microsub.redis.protocol import Script
from microsub.redis.tracking import Tracker
from microsub.timelines.store.pages import ItemCache
from tests.support.posts import NOON, candidate
from tests.support.waiting import wait_until


@pytest.fixture
async def cluster(cluster_url):
    connection = await connect(cluster_url)
    yield connection
    await connection.aclose()


async def test_replies_are_as_from_a_single_server(cluster):
    """Bytes and lists; pipelines and scripts in the order of the calls, whichever node they went to."""
    echo = Script("echo", "return {KEYS[1], redis.call('GET', KEYS[1])}")
    names = [f"k{number}" for number in range(30)]
    assert await cluster.pipeline([("SET", name, name) for name in names]) == [b"OK"] * 30
    assert await cluster.scripts([(echo, [name], []) for name in names]) == [[n.encode(), n.encode()] for n in names]
    assert await cluster.script(echo, ["k7"]) == [b"k7", b"k7"]
    assert await cluster.command("HSET", "h", "a", 1) == 1
    assert await cluster.command("HGETALL", "h") == [b"a", b"1"]
    assert await cluster.command("SMEMBERS", "none") == []
    assert await cluster.command("ZADD", "z", 1.5, "m") == 1
    assert await cluster.command("ZRANGE", "z", 0, -1, "WITHSCORES") == [b"m", b"1.5"]


async def test_posts_feeds_and_schedule_work(cluster):
    """Store, edit, twins, schedule and migration, over feeds and hosts that lie in different slots."""
    assert await migrate(cluster) == 0
    feeds, items, schedule = Feeds(cluster), Items(cluster), Schedule(cluster)
    for number in range(8):
        host = f"h{number}.example"
        feed = await feeds.ensure(f"https://{host}/feed", NOON)
        await feeds.subscribe(feed.id, "ann", "home")
        posts = [candidate(str(place), host=host, twin=f"t{place}") for place in range(30)]
        stored = await items.store(feed, posts, NOON)
        assert len(stored.new) == 30
        edits = [candidate(str(place), host=host, text="new", twin=f"t{place}") for place in range(30)]
        assert len((await items.store(feed, edits, NOON + 1)).updated) == 30
        assert len(await items.timeline_items([item.id for item in stored.new])) == 30
        await schedule.add(feed.id, host, NOON)
    assert len(await feeds.all_ids()) == 8
    for lease in await schedule.take(NOON, 10, 60):
        (feed_id,) = (await schedule.due_feeds(lease, NOON, 5)).ids
        await schedule.hold(lease.host, feed_id, NOON + 60, NOON)
        assert await schedule.finish(lease, feed_id, NOON + 600)
        assert await schedule.release(lease, NOON, 1)
    assert not await schedule.take(NOON + 599, 1, 60)
    assert await schedule.take(NOON + 600, 1, 60)
    await schedule.bump([("1", "h1.example"), ("2", "h2.example")], NOON + 2)


async def test_edits_on_every_master_reach_the_cache(cluster, cluster_url):
    """One connection per master listens."""
    ids = [str(number) for number in range(20)]
    await cluster.pipeline([("HSET", keys.item(item_id), "Data", '{"n":"old"}') for item_id in ids])
    cache = ItemCache(Items(cluster), Tracker(cluster_url, keys.ITEM_PREFIX, retry_every=0.01), 100_000)
    await cache.get(ids)
    await wait_until(lambda: cache._flush_at is None)
    assert await cache.get(ids) == [b'{"n":"old"}'] * 20
    await cluster.pipeline([("HSET", keys.item(item_id), "Data", '{"n":"new"}') for item_id in ids])
    await wait_until(lambda: not cache._kept)
    assert await cache.get(ids) == [b'{"n":"new"}'] * 20
    await cache.aclose()


async def test_no_cluster_there():
    """StoreUnavailable, as from a single server."""
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(connect("redis+cluster://127.0.0.1:1"), 60)
