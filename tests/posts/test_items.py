"""The post store, on a fake Redis and on a real one."""

import asyncio

import pytest

from microsub.feeds.record import COPIED, MERGED, FeedRecord, Feeds
from microsub.formats.entry_id import told_apart
from microsub.posts.imported import Imported
from microsub.posts.ingest import PostWriter
from microsub.posts.items import Items
from microsub.posts.values import WRITTEN_GUID, ItemToStore
from microsub.redis import keys
from microsub.redis.replies import score_text
from tests.support.invariants import all_keys
from tests.support.posts import NOON, candidate
from tests.support.redis_wrappers import Between, CountingRedis, KilledError, Wrapped, die, once

BLOG = "https://blog.example/atom"
MAGIC = b"\x28\xb5\x2f\xfd"


@pytest.fixture
def items(redis):
    return Items(redis)


@pytest.fixture
def writer(redis):
    return PostWriter(redis)


@pytest.fixture
async def feed(redis) -> FeedRecord:
    return await Feeds(redis).ensure(BLOG, NOON)


async def all_items(redis) -> list[bytes]:
    return [name for name in await all_keys(redis) if name.startswith(b"item:")]


async def test_many_posts_are_read_in_pieces(items, writer, feed, redis, monkeypatch):
    """Each piece has as many posts as fit, and at least one; missing ones are left out."""
    monkeypatch.setattr("microsub.posts.items.PIECE", 100_000)
    texts = {"small": 10, "large": 20_000, "larger": 20_001, "huge": 200_000}
    new = (await writer.write(feed, [candidate(name, text="x" * size) for name, size in texts.items()], NOON)).new
    ids = [item.id for item in new]
    pieces = [piece async for piece in items.pieces([*ids, "999"])]
    assert {item_id: data for piece in pieces for item_id, data in piece.items()} == dict(
        zip(ids, await items.data(ids), strict=True)
    )
    assert sorted(len(piece) for piece in pieces) == [1, 1, 2]
    assert max(sum(map(len, piece.values())) for piece in pieces if len(piece) > 1) < 100_000


async def test_packed_and_plain_posts_are_read_alike(items, writer, feed, redis):
    """All ways to read a post return its JSON, and the size of that, whether it is packed or not."""
    texts = {"a": "word " * 50, "b": "x" * 20_000, "c": "Müßiggang " * 10}
    new = (await writer.write(feed, [candidate(name, text=text) for name, text in texts.items()], NOON)).new
    ids = [item.id for item in new]
    stored = await redis.pipeline([("HGET", keys.item(one), "Data") for one in ids])

    async def read() -> list[object]:
        up_to = [await items.data_up_to([*ids, "999"], most) for most in (0, 16 * 1024, 10**6)]
        pieces = [piece async for piece in items.pieces([*ids, "999"])]
        some = await items.fields(ids, ("ID", "Data", "score"))
        return [
            await items.data([*ids, "999"]),
            *up_to,
            {key: value for piece in pieces for key, value in piece.items()},
            await items.sizes([*ids, "999"]),
            await items.sizes(ids, "link"),
            some,
            await items.get_many([*ids, "999"]),
            await items.raw([*ids, "999"]),
        ]

    packed = await read()
    data = await items.data(ids)
    assert [text in one.decode() for text, one in zip(texts.values(), data, strict=True)] == [True] * 3
    assert packed[5] == [*map(len, data), 0]
    assert all(len(one) < len(plain) / 2 for one, plain in zip(stored, data, strict=True))
    await redis.pipeline([("HSET", keys.item(one), "Data", plain) for one, plain in zip(ids, data, strict=True)])
    assert await read() == packed


async def test_the_results_of_a_look_up_are_packed_too(items, writer, feed, redis):
    """They replace the whole JSON."""
    (new,) = (await writer.write(feed, [candidate("one")], NOON)).new
    ((digest,),) = await items.fields([new.id], ("hash",))
    data = b'{"type":"entry","name":"%b"}' % (b"again and " * 30)
    assert await items.complete(new.id, "", digest.decode(), {"Data": data})
    assert await items.data([new.id]) == [data]
    assert len(await redis.command("HGET", keys.item(new.id), "Data")) < len(data) / 2


async def test_an_edit_replaces_a_corrupt_packed_post(items, writer, feed, redis):
    """Nobody can read what was there."""
    (new,) = (await writer.write(feed, [candidate("one")], NOON)).new
    frame = await redis.command("HGET", keys.item(new.id), "Data")
    await redis.command("HSET", keys.item(new.id), "Data", frame[:-9])
    (edited,) = (await writer.write(feed, [candidate("one", text="edited")], NOON + 1)).updated
    assert edited.id == new.id
    assert b"edited" in (await items.data([new.id]))[0]


async def test_a_hostile_size_in_a_header_is_only_a_number(items, redis):
    """Sizes are read from headers of any bytes, cut ones too; unpacking has its own limit."""
    frames = {
        b"": 0,
        b"{": 1,
        MAGIC: 0,
        MAGIC + b"\x20\x07": 7,
        MAGIC + b"\x21\x01\x07rest": 7,
        MAGIC + b"\x40\x99\x07\x01": 256 + 7 + 256,
        MAGIC + b"\xa3\0\0\0\0\x07\x01\0\0": 7 + 256,
        MAGIC + b"\xe1\x01" + b"\xff" * 8: 2**31,
    }
    for number, data in enumerate(frames):
        await redis.command("HSET", keys.item(str(number)), "Data", data, "score", 1)
    assert await items.sizes(list(map(str, range(len(frames))))) == [*frames.values()]


async def test_an_item_swept_during_an_edit_stays_gone(writer, feed, redis):
    """An edit doesn't restore parts of a deleted item."""
    (item,) = (await writer.write(feed, [candidate("one")], NOON)).new

    async def sweep():
        await redis.command("DEL", keys.item(item.id))

    sweeping = Between(redis, once("item_update", sweep))
    stored = await PostWriter(sweeping).write(feed, [candidate("one", text="edited")], NOON + 1)
    assert stored.updated == ()
    assert await all_items(redis) == []


async def test_two_polls_at_once_store_each_post_once(items, feed, redis):
    """The loser of a claim deletes what it wrote: there is one hash per post, new to one of them."""
    posts = [candidate(str(number)) for number in range(50)]
    results = await asyncio.gather(*(PostWriter(redis).write(feed, posts, NOON) for _ in range(4)))
    new = [item.id for stored in results for item in stored.new]
    assert len(new) == len(set(new)) == 50
    assert len(await all_items(redis)) == 50
    assert sorted(await items.outbox(feed.id)) == sorted(new)


async def test_the_loser_of_a_claim_deletes_its_hash(feed, redis):
    """If another process stores the post between our check and our claim, ours is deleted without a trace."""
    winners = []

    async def win():
        winners.append(await PostWriter(redis).write(feed, [candidate("one", common="t")], NOON))

    late = Between(redis, once("item_claim", win))
    stored = await PostWriter(late).write(feed, [candidate("one", common="t")], NOON)
    assert (stored.new, stored.updated) == ((), ())
    assert await all_items(redis) == [keys.item(winners[0].new[0].id).encode()]
    assert await redis.command("ZCARD", keys.duplicates("blog.example")) == 1


async def test_a_crash_before_the_claim_loses_nothing(writer, items, feed, redis):
    """After a kill between hash and claim, the next poll stores the post; only an orphan without references is left."""
    with pytest.raises(KilledError):
        await PostWriter(Between(redis, once("item_claim", die))).write(feed, [candidate("one")], NOON)
    assert await items.newest(feed.id, 5) == []
    stored = await writer.write(feed, [candidate("one")], NOON + 1)
    assert [item.id for item in stored.new] == await items.newest(feed.id, 5) == await items.outbox(feed.id)


async def test_a_crash_after_the_claim_leaves_the_post_in_the_outbox(writer, items, feed, redis):
    """After a kill behind the claim, the post is in the outbox and only needs delivery."""

    class Dying(Wrapped):
        async def _trip(self, name, args, run):
            found = await run()
            if name == "item_claim":
                raise KilledError
            return found

    with pytest.raises(KilledError):
        await PostWriter(Dying(redis)).write(feed, [candidate("one")], NOON)
    (item_id,) = await items.outbox(feed.id)
    assert (await items.timeline_items([item_id]))[0].score == score_text(NOON)
    assert (await writer.write(feed, [candidate("one")], NOON + 1)).new == ()


async def test_a_large_document_costs_a_handful_of_round_trips(feed, redis):
    """300 new posts, then 300 edits, then nothing new: no round trip depends on their number."""
    counting = CountingRedis(redis)
    writer = PostWriter(counting)
    posts = [candidate(str(number), common=f"t{number}") for number in range(300)]
    assert len((await writer.write(feed, posts, NOON)).new) == 300
    assert counting.trips <= 7
    counting.trips = 0
    edits = [candidate(str(number), text="edited", common=f"t{number}") for number in range(300)]
    assert len((await writer.write(feed, edits, NOON + 1)).updated) == 300
    assert counting.trips <= 7
    counting.trips = 0
    await writer.write(feed, edits, NOON + 2)
    assert counting.trips <= 4


# --- duplicates --------------------------------------------------------------------------------------------------


async def stored_in(redis, url: str, post: ItemToStore):
    feed = await Feeds(redis).ensure(url, NOON)
    (item,) = (await PostWriter(redis).write(feed, [post], NOON)).new
    return feed, item


async def duplicates(redis, *ids):
    """For each item, the ids of its duplicates and whether they win."""
    found = await Items(redis).timeline_items(ids)
    return [[(other.item, other.feed, other.wins) for other in item.duplicates] for item in found]


async def test_copies_of_one_host_are_duplicates_and_the_first_wins(redis):
    """The Atom and the RSS feed of a blog contain the same post; the copy that was stored first stays."""
    post = candidate("one", common="t")
    atom, first = await stored_in(redis, "https://blog.example/atom", post)
    rss, second = await stored_in(redis, "https://blog.example/rss", post)
    assert await duplicates(redis, first.id, second.id) == [[(second.id, rss.id, False)], [(first.id, atom.id, True)]]


@pytest.mark.parametrize("planet_first", [True, False])
async def test_the_copy_from_the_links_host_wins(redis, planet_first):
    """A planet's copy yields to the blog's own, whichever was stored first."""
    post = candidate("one", common="t")
    urls = ["https://planet.example/feed", "https://blog.example/atom"]
    stored = {url: await stored_in(redis, url, post) for url in (urls if planet_first else urls[::-1])}
    (planet, planet_item), (blog, blog_item) = stored[urls[0]], stored[urls[1]]
    assert await duplicates(redis, planet_item.id, blog_item.id) == [
        [(blog_item.id, blog.id, True)],
        [(planet_item.id, planet.id, False)],
    ]


async def test_a_strange_feed_can_neither_replace_nor_suppress(redis):
    """Two feeds of other hosts with the guid and link of a blog's post don't affect each other."""
    post = candidate("one", common="t")
    _, one = await stored_in(redis, "https://evil.example/feed", post)
    _, other = await stored_in(redis, "https://planet.example/feed", post)
    assert await duplicates(redis, one.id, other.id) == [[], []]


@pytest.mark.parametrize("way", ["merged", "merged before", "imported"])
async def test_a_post_and_the_one_that_it_replaces_name_each_other(redis, way):
    """A post of a feed that has merged into another one, or a user's own copy; another host serves it."""
    items, feeds = Items(redis), Feeds(redis)
    former, old = await stored_in(redis, "https://old.example/feed", candidate("one"))
    successor = await feeds.ensure("https://new.example/feed", NOON)
    if way == "merged":
        _, new = await stored_in(redis, "https://new.example/feed", candidate("one"))
        await items.succeed(successor.id, former.id, 10)
    elif way == "merged before":
        await feeds.update(successor.id, {MERGED: former.id})
        _, new = await stored_in(redis, "https://new.example/feed", candidate("one"))
    else:
        await feeds.update(successor.id, {COPIED: "1"})
        await Imported(redis).note_copies(successor.id, {candidate("one").guid: old.id})
        _, new = await stored_in(redis, "https://new.example/feed", candidate("one"))
    assert (await items.duplicates([new.id]), await items.duplicates([old.id])) == (
        {new.id: {old.id}},
        {old.id: {new.id}},
    )


async def test_copies_are_still_known_after_a_year_of_listing(writer, feed, redis):
    """While a feed lists a post, the time to live of its copies is extended, at most once a month."""
    post = candidate("one", common="t")
    await writer.write(feed, [post], NOON)
    await redis.command("EXPIRE", keys.duplicates("blog.example"), 100)
    await writer.write(feed, [post], NOON + 86400)
    assert await redis.command("TTL", keys.duplicates("blog.example")) <= 100
    await writer.write(feed, [post], NOON + 40 * 86400)
    assert await redis.command("TTL", keys.duplicates("blog.example")) > 300 * 86400
    await redis.command("DEL", keys.duplicates("blog.example"))
    await writer.write(feed, [post], NOON + 80 * 86400)
    assert await redis.command("ZCARD", keys.duplicates("blog.example")) == 1


async def test_posts_that_link_to_one_host_find_their_own_copies(redis):
    """They are in one set; each finds its own copies only."""
    feeds = ["https://blog.example/atom", "https://blog.example/rss", "https://planet.example/feed"]
    posts = [candidate(str(number), common=str(number)) for number in range(200)]
    made = []
    for url in feeds:
        feed = await Feeds(redis).ensure(url, NOON)
        made.append([item.id for item in (await PostWriter(redis).write(feed, posts, NOON)).new])
    assert await redis.command("ZCARD", keys.duplicates("blog.example")) == 600
    first, second, third = await asyncio.gather(*(duplicates(redis, *ids) for ids in made))
    assert [{other for other, *_ in found} for found in first] == [set(pair) for pair in zip(*made[1:], strict=True)]
    assert [{other for other, *_ in found} for found in second] == [set(pair) for pair in zip(*made[::2], strict=True)]
    assert [{other for other, *_ in found} for found in third] == [set(pair) for pair in zip(*made[:2], strict=True)]


async def test_posts_of_a_lively_host_are_forgotten_at_last(writer, feed, redis):
    """Those that weren't listed for more than 400 days leave its set while newer ones are written, most of them."""
    for month in range(40):
        posts = [candidate(f"{month}-{number}", common=f"{month}-{number}") for number in range(20)]
        for one in posts:
            await writer.write(feed, [one], NOON + month * 30 * 86400)
    there = await redis.command("ZRANGE", keys.duplicates("blog.example"), 0, -1, "WITHSCORES")
    ages = [(NOON + 39 * 30 * 86400) // (30 * 86400) % 256 - int(score) % 256 for score in there[1::2]]
    assert sum(age <= 13 for age in ages) == 14 * 20
    assert sum(age > 15 for age in ages) < 14 * 20


def test_scores_are_short_decimal_text():
    """Microseconds, no exponents, no trailing zeros."""
    assert [score_text(value) for value in (0, 1.5, NOON, NOON + 0.123456)] == [
        "0", "1.5", "1700000000", "1700000000.123456",
    ]  # fmt: skip


async def test_an_import_overwrites_no_post(redis, feed):
    """This includes a post known by guid and link because another one has its guid; no follower gets it as new."""
    guid, link = "https://blog.example/shared", "https://blog.example/one"
    writer = PostWriter(redis)
    known_as = told_apart(guid, link, guid)
    (stored,) = (await writer.write(feed, [candidate("one", guid=known_as, extra={WRITTEN_GUID: guid})], NOON)).new
    before = await Items(redis).get(stored.id)
    brought = [candidate("one", guid=guid, text="altered", extra={WRITTEN_GUID: guid}), candidate("two")]
    assert await writer.write_missing(feed, brought, NOON) == {guid: stored.id}
    assert await Items(redis).get(stored.id) == before
    assert await Items(redis).by_guid(feed.id, "https://blog.example/two")
    assert await Items(redis).outbox(feed.id) == [stored.id]
