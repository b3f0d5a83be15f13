"""The version of the layout."""

import asyncio
import json

import pytest

from microsub.cache.redis_storage import FeedCopies
from microsub.configuration.model import Quotas, UserSettings
from microsub.configuration.store import Applied
from microsub.errors import SchemaMismatch
from microsub.formats.wire import dump
from microsub.migrations import VERSION, migrate, schema_version
from microsub.model.settings import Filters, OwnChannelSettings
from microsub.redis import keys
from microsub.redis.streams import Stream, message_of, size_of
from microsub.timelines.store.channels import Channels


class Steps:
    """Steps to version 3 that note when they ran."""

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
    """There is nothing to migrate; the mark is written once, by whoever comes first."""
    assert await asyncio.gather(*(migrate(redis) for _ in range(3))) == [0, 0, 0]
    assert await schema_version(redis) == VERSION
    assert await migrate(redis) == VERSION


async def test_newer_data_is_refused(redis):
    """Data of a later version is not touched, and the error says what to do."""
    await redis.command("SET", keys.schema(), VERSION + 1)
    with pytest.raises(SchemaMismatch, match="upgrade the software"):
        await migrate(redis)
    assert await schema_version(redis) == VERSION + 1


async def test_a_mark_that_is_no_number_is_refused(redis):
    """Somebody else's data is not ours to migrate."""
    await redis.command("SET", keys.schema(), "v2-beta")
    with pytest.raises(SchemaMismatch, match="v2-beta"):
        await migrate(redis)


async def test_steps_run_in_order_and_once(redis):
    """Three processes at once migrate step by step, each step once."""
    await redis.command("SET", keys.schema(), 1)
    steps = Steps()
    await asyncio.gather(*(migrate(redis, version=3, steps=steps) for _ in range(3)))
    assert steps.ran == [2, 3]
    assert await schema_version(redis) == 3
    assert await redis.command("EXISTS", keys.lease("migration")) == 0


async def test_an_interrupted_migration_resumes(redis):
    """A step that failed runs again with the next call; those that were done don't."""
    await redis.command("SET", keys.schema(), 1)
    steps = Steps(fail=3)
    with pytest.raises(OSError, match="killed"):
        await migrate(redis, version=3, steps=steps)
    assert await schema_version(redis) == 2
    assert await migrate(redis, version=3, steps=steps) == 2
    assert steps.ran == [2, 3]


async def test_a_gap_in_the_way_is_refused(redis):
    """Data so old that no step leads on is refused before anything is changed."""
    await redis.command("SET", keys.schema(), 1)
    with pytest.raises(SchemaMismatch, match="no way"):
        await migrate(redis, version=5, steps=Steps())
    assert await schema_version(redis) == 1


SCRIPT = "<script>alert(1)</script></iframe>"
CLEAN = '<p>a <a href="https://a.example/" rel="noopener noreferrer">b</a></p>'


def wire(html, **others):
    return {"type": "entry", "url": "https://a.example/1", "content": {"html": html, "text": "a b"}, **others}


async def test_stored_posts_are_cleaned_again(redis):
    """Script that an earlier sanitiser let through leaves every post and what it refers to; all else stays."""
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
    """Those of a worker that has died, too; the others stay where they are, and nothing is counted twice."""
    stream = Stream(redis, name)
    dirty, clean = (
        {"feed": b"1", "items": b'[{"guid":"a"}]', "0": json.dumps(wire(html)).encode()}
        for html in (f"<p>x</p>{SCRIPT}", CLEAN)
    )
    await stream.add([dirty, clean])
    if name == "entries":
        await stream.take("a worker that dies", 2)
    await redis.command("SET", keys.schema(), 1)
    await migrate(redis)
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
    """Of channels that are there and of removed ones, and users' quotas."""
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
    own = OwnChannelSettings(2.5, None, 0, "none", None, Filters(exclude_words=('a "b"',)))
    assert (await Channels(redis).get("ann", "home")).settings == own
    assert (await Channels(redis).get("ann", "bare")).settings == OwnChannelSettings()
    for uid in ("home", "old"):
        fields = ("settings", "max_items", "unread", "keep_read_days")
        assert await redis.command("HMGET", keys.channel("ann", uid), *fields) == [None, b"0", b"none", b"2.5"]
    assert (await Applied(redis).in_force()).users == {
        "ann": UserSettings(max_items=7, quotas=Quotas(feeds=3)),
        "bob": UserSettings(quotas=Quotas(feeds=4)),
    }
