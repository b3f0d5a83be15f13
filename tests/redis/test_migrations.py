"""The versions of the data layout, and the migrations between them."""

import asyncio
import json

import pytest

from microsub.cache.redis_storage import FeedCopies
from microsub.configuration.model import Quotas, UserSettings
from microsub.configuration.store import Applied
from microsub.delivery.dead_letters import DeadLetters
from microsub.errors import SchemaMismatch
from microsub.formats.wire import dump
from microsub.migrations import VERSION, migrate, schema_version
from microsub.model.settings import Filters, OwnChannelSettings
from microsub.posts.values import EntriesFound
from microsub.redis import keys
from microsub.redis.streams import Stream, message_of, size_of
from microsub.timelines.add import Adder
from microsub.timelines.channels import Channels
from tests.support.invariants import wrong_arrivals
from tests.support.one_reader import KnownItems, item
from tests.support.polling import world
from tests.support.posts import NOON, candidate
from tests.support.redis_wrappers import Between, KilledError, die, once


class Steps:
    """Migration steps to version 3 that record their runs."""

    def __init__(self, fail: int | None = None):
        self.ran: list[int] = []
        self.fail = fail

    def __getitem__(self, number):
        async def step(redis):
            await asyncio.sleep(0)
            if number == self.fail:
                self.fail = None
                raise OSError("killed")
            self.ran.append(number)

        return step

    def __contains__(self, number):
        return number in (2, 3)


async def test_an_empty_database_gets_our_version(redis):
    """There is nothing to migrate; the first process writes the version, once."""
    assert await asyncio.gather(*(migrate(redis) for _ in range(3))) == [0, 0, 0]
    assert await schema_version(redis) == VERSION
    assert await migrate(redis) == VERSION


async def test_newer_data_is_refused(redis):
    """Data of a later version isn't changed, and the error says what to do."""
    await redis.command("SET", keys.schema(), VERSION + 1)
    with pytest.raises(SchemaMismatch, match="upgrade the software"):
        await migrate(redis)
    assert await schema_version(redis) == VERSION + 1


async def test_a_mark_that_is_no_number_is_refused(redis):
    """Data of another program isn't migrated."""
    await redis.command("SET", keys.schema(), "v2-beta")
    with pytest.raises(SchemaMismatch, match="v2-beta"):
        await migrate(redis)


async def test_steps_run_in_order_and_once(redis):
    """If three processes migrate at the same time, each step still runs once."""
    await redis.command("SET", keys.schema(), 1)
    steps = Steps()
    await asyncio.gather(*(migrate(redis, version=3, steps=steps) for _ in range(3)))
    assert steps.ran == [2, 3]
    assert await schema_version(redis) == 3
    assert await redis.command("EXISTS", keys.lease("migration")) == 0


async def test_an_interrupted_migration_resumes(redis):
    """A failed step runs again with the next call; finished steps don't."""
    await redis.command("SET", keys.schema(), 1)
    steps = Steps(fail=3)
    with pytest.raises(OSError, match="killed"):
        await migrate(redis, version=3, steps=steps)
    assert await schema_version(redis) == 2
    assert await migrate(redis, version=3, steps=steps) == 2
    assert steps.ran == [2, 3]


async def test_a_gap_in_the_way_is_refused(redis):
    """Data that is too old for any step is refused before anything is changed."""
    await redis.command("SET", keys.schema(), 1)
    with pytest.raises(SchemaMismatch, match="be migrated"):
        await migrate(redis, version=5, steps=Steps())
    assert await schema_version(redis) == 1


SCRIPT = "<script>alert(1)</script></iframe>"
CLEAN = '<p>a <a href="https://a.example/" rel="noopener noreferrer">b</a></p>'


def wire(html, **others):
    return {"type": "entry", "url": "https://a.example/1", "content": {"html": html, "text": "a b"}, **others}


async def test_stored_posts_are_cleaned_again(redis):
    """Scripts that an earlier sanitiser let through are removed from posts and their references; all else stays."""
    clean, own = wire(CLEAN), wire(f"<p>x</p>{SCRIPT}", name="n")
    reply = wire(CLEAN, refs={"https://b": wire(SCRIPT)})
    stored = {1: clean, 2: own, 4: reply, 700: own}
    for number, post in stored.items():
        await redis.command("HSET", keys.item(str(number)), "Data", json.dumps(post, separators=(",", ":")), "score", 1)
    await redis.command("HSET", keys.item("3"), "Data", "[no post", "score", 1)
    await redis.command("SET", keys.item_ids(), 700)
    await redis.command("SET", keys.schema(), 1)
    await FeedCopies(redis).put("https://a.example/feed", b"copy", 60)
    assert await migrate(redis) == 1
    data = {number: await redis.command("HGET", keys.item(str(number)), "Data") for number in (*stored, 3)}
    assert data[1].decode() == json.dumps(clean, separators=(",", ":"))
    assert json.loads(data[2]) == json.loads(data[700]) == wire("<p>x</p>", name="n")
    assert json.loads(data[4])["refs"]["https://b"]["content"] == {"text": "a b"}
    assert data[3] == b"[no post"
    assert await redis.command("HLEN", keys.item("5")) == 0
    assert await FeedCopies(redis).get("https://a.example/feed") is None


@pytest.mark.parametrize("name", ["entries", "dead"])
async def test_posts_that_wait_are_cleaned_as_well(redis, name):
    """This includes messages of a worker that has died; other messages keep their places, and none is counted twice."""
    stream = Stream(redis, name)
    dirty, clean = (
        {"feed": b"1", "items": b'[{"guid":"a"}]', "0": json.dumps(wire(html)).encode()}
        for html in (f"<p>x</p>{SCRIPT}", CLEAN)
    )
    await stream.add([dirty, clean])
    if name == "entries":
        await stream.take("a worker that dies", 2)
    await redis.command("SET", keys.schema(), 1)
    await migrate(redis, version=2)
    rows = await redis.command("XRANGE", keys.stream(name), "-", "+")
    waiting = [message_of(row).fields for row in rows]
    assert waiting[0] == clean
    assert waiting[1] == {**dirty, "0": dump(wire("<p>x</p>"))}
    backlog = await stream.backlog()
    assert (backlog.messages, backlog.bytes) == (2, sum(map(size_of, waiting)))
    if name == "entries":
        await stream.take("another", 5)
        again = {message.id: message.fields for message in await stream.take_over("another", 0, 5)}
        assert [again[one] for one in sorted(again)] == waiting


async def test_settings_of_channels_and_users_are_taken_over(redis):
    """Settings of channels, including removed ones, and quotas of users."""
    settings = {"unread": "none", "keep_read_days": 2.5, "max_items": 0, "filters": {"exclude_words": ['a "b"']}}
    await redis.command("SADD", keys.users(), "ann")
    await redis.command("ZADD", keys.channels("ann"), 1, "home", 2, "bare")
    await redis.command("ZADD", keys.removed_channels("ann"), 1, "old")
    for uid in ("home", "old"):
        await redis.command("HSET", keys.channel("ann", uid), "name", uid, "settings", json.dumps(settings))
    await redis.command("HSET", keys.channel("ann", "bare"), "name", "bare")
    await redis.command("HSET", keys.settings(), "user:ann", '{"max_items":7}', "quotas:ann", '{"feeds":3}')
    await redis.command("HSET", keys.settings(), "instance", "{}", "quotas:bob", '{"feeds":4}')
    await redis.command("SET", keys.schema(), 2)
    assert await migrate(redis) == 2
    own = OwnChannelSettings(2.5, None, 0, "none", None, filters=Filters(exclude_words=('a "b"',)))
    assert (await Channels(redis).get("ann", "home")).settings == own
    assert (await Channels(redis).get("ann", "bare")).settings == OwnChannelSettings()
    for uid in ("home", "old"):
        fields = ("settings", "max_items", "unread", "keep_read_days")
        assert await redis.command("HMGET", keys.channel("ann", uid), *fields) == [None, b"0", b"none", b"2.5"]
    assert (await Applied(redis).in_force()).users == {
        "ann": UserSettings(max_items=7, quotas=Quotas(feeds=3)),
        "bob": UserSettings(quotas=Quotas(feeds=4)),
    }


async def test_posts_that_waited_to_be_stored_are_stored(redis):
    """This includes messages that a worker had taken. Those that can't be stored become dead letters."""
    async with world(redis) as it:
        feed = await it.follow("https://blog.example/feed")
        await it.redis.command("HSET", keys.feed(feed.id), "sent", "5-0", "handled", "4-0")
        entries = Stream(redis, "entries")
        found = [EntriesFound(feed.id, NOON, (candidate(name),), NOON + n).to_fields() for n, name in enumerate("ab")]
        gone = EntriesFound("77", NOON, (candidate("c"),)).to_fields()
        await entries.add([*found, gone, {"what": b"ever"}])
        await entries.take("a worker that has died", 1)
        await redis.command("SET", keys.schema(), 3)
        assert await migrate(redis) == 3
        assert await redis.command("EXISTS", keys.stream("entries")) == 0
        assert await redis.command("EXISTS", keys.stream_bytes("entries")) == 0
        (letter,) = await DeadLetters(redis).list()
        assert (letter.stage, letter.fields) == ("entries", {"what": b"ever"})
        await it.stages.run_once()
        assert len(await it.rows()) == 2
        assert await it.items.outbox(feed.id) == []
        assert not {"sent", "handled"} & (await it.record(feed)).extra.keys()


async def test_the_unread_limit_of_filled_feeds_is_migrated(redis):
    """The old hash is deleted; filled feeds get the time of the follow. For other feeds their first items decide, also
    after an interrupted migration was repeated.
    """

    await redis.command("SADD", keys.users(), "ann")
    await redis.command("ZADD", keys.channels("ann"), 1, "home")
    await redis.command("ZADD", keys.removed_channels("ann"), 1, "old")
    for uid in ("home", "old"):
        feeds = {feed: json.dumps({"url": f"https://{feed}.example/", "followed_at": 7.5}) for feed in "123"}
        await redis.command("HSET", keys.channel_feeds("ann", uid), *(part for pair in feeds.items() for part in pair))
        await redis.command("HSET", keys.channel("ann", uid) + ":unfilled", "2", "7.5", "3", "left 4")
    await redis.command("HSET", keys.channel("ann", "home"), "name", "Home")
    await redis.command("SET", keys.schema(), 4)
    for step, command in ((4, "HSET"), (5, "DEL")):
        with pytest.raises(KilledError):
            await migrate(Between(redis, once(command, die)))
        assert await redis.command("GET", keys.schema()) == b"%d" % step
    assert await migrate(redis) == 5
    fields = [f"unread_from {feed}" for feed in "123"]
    assert await redis.command("HMGET", keys.channel("ann", "home"), *fields) == [b"7.500000", None, b"7.500000"]
    for uid in ("home", "old"):
        assert await redis.command("EXISTS", keys.channel("ann", uid) + ":unfilled") == 0
    items = KnownItems()
    for feed, added in (("1", ("18",)), ("2", ("28", "27", "26")), ("3", ("38",))):
        posts = items.know(feed, *(item(10 * int(feed) + n, float(n)) for n in range(1, 9)))
        assert (await Adder(redis, items).add("ann", "home", feed, posts, now=9.0, limit=0, fresh=3)).added == added


async def test_every_user_gets_the_channel_saved(redis):
    """It is the last channel; a second run changes nothing, and keeps the name that the user has given it."""
    async with world(redis) as it:
        await it.accounts.add_user("ann", "", NOON)
        await it.channels.create("ann", "Home", NOON)
        await redis.command("ZREM", keys.channels("ann"), "saved")
        await redis.command("DEL", keys.channel("ann", "saved"))
        for name in ("Saved", "Kept"):
            await redis.command("SET", keys.schema(), 6)
            await migrate(redis, version=7)
            channels = await it.channels.list("ann")
            assert [(one.uid, one.name) for one in channels] == [
                ("notifications", "Notifications"),
                ("home", "Home"),
                ("saved", name),
            ]
            await it.channels.rename("ann", "saved", "Kept", NOON)


async def test_items_of_before_have_an_order_of_arrival(redis):
    """They are ordered by publication, including those of removed channels; new items come after them."""
    async with world(redis) as it:
        known = KnownItems()
        adder = Adder(redis, known)
        await it.accounts.add_user("ann", "", NOON)
        for uid in ("home", "work"):
            await it.channels.create("ann", uid, NOON, uid)
            for number in (3, 1, 2):
                await adder.put("ann", uid, *known.know("1", item(number)), NOON, unfiltered=True)
        await it.channels.disable("ann", "work", NOON)
        await redis.command("DEL", keys.arrivals("ann"), keys.arrivals_more("ann"))
        for _ in range(2):
            await redis.command("SET", keys.schema(), 7)
            await migrate(redis, version=8)
            assert await redis.command("ZRANGE", keys.arrivals("ann"), 0, -1) == [b"1", b"2", b"3"]
            assert await wrong_arrivals(redis, "ann") == {}
