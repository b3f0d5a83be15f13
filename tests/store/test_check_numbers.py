"""Numbers that are none, or larger than any, in every kind of key: found, mended, and borne meanwhile."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest

from microsub.errors import StoreError, Unauthorized
from microsub.store import counters, keys
from microsub.store.keynames import kinds
from microsub.store.port import Redis
from microsub.store.servicetokens import ServiceTokens
from tests.store import test_check_junk as junk
from tests.support.lived_in import LATER, LivedIn
from tests.support.polling import Clock, world

FLAVOURS = {
    "huge": b"9" * 30, "64 bits": b"9223372036854775807", "infinite": b"inf", "nan": b"nan", "large": b"1e300",
    "object": b"{}", "list": b"[]", "null": b"null", "negative": b"-7", "zeros": b"007", "deep": b"[" * 5000,
    "objects in a list": b'[{"a": 1}]', "members": b'{"digest": 1, "created": 1e300, "url": [], "document": {}}',
}  # fmt: skip


@pytest.fixture
async def lived_in(real_redis: Redis) -> AsyncIterator[LivedIn]:
    here = LivedIn(real_redis)
    await here.begin()
    yield here
    left = [junk.key_of(kind) for kind in kinds() if kind.name in junk.ANYTHING | junk.ELSEWHERE]
    await real_redis.pipeline([("DEL", key) for key in left])


@pytest.mark.parametrize("how", [junk.junk, junk.spoil])
@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_odd_numbers_in_every_kind_of_key_are_mended_and_borne(
    lived_in: LivedIn, flavour: str, how: junk.How, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check says what it finds, the server goes on, and a repair leaves nothing to find."""
    monkeypatch.setitem(junk.VALUE, flavour, FLAVOURS[flavour])
    redis = lived_in.redis
    for kind in junk.judged():
        if how is junk.junk or (kind.type == "hash" and await redis.command("EXISTS", junk.key_of(kind))):
            await junk.apply(redis, how(kind, flavour))
    async with world(redis, clock=Clock(LATER - time.time())) as it:
        await lived_in.check()
        await junk.goes_on(lived_in, it)
        mended = await lived_in.check(mend=True)
        assert mended.left == (), mended.as_text()
        assert (await lived_in.check()).left == ()
        await junk.goes_on(lived_in, it)


DIGEST = "ab" * 32


@pytest.mark.parametrize(
    "row",
    [
        "", "abc", "[]", "{}", "null", '{"digest": 1, "created": 1}', '{"digest": "é", "created": 1}',
        f'{{"digest": "{DIGEST}"}}', f'{{"digest": "{DIGEST}", "created": true}}',
        f'{{"digest": "{DIGEST}", "created": 1, "expires": 1e300}}',
        f'{{"digest": "{DIGEST}", "created": {"9" * 30}}}', f'{{"digest": "{DIGEST}", "created": null}}',
    ],
)  # fmt: skip
async def test_a_spoilt_token_of_a_program_opens_nothing_and_hides_none(lived_in: LivedIn, row: str) -> None:
    """Others are listed and open what they opened; the check takes it out."""
    tokens = ServiceTokens(lived_in.redis)
    good = await tokens.create("good", LATER)
    await lived_in.redis.command("HSET", keys.service_tokens(), "bad", row)
    with pytest.raises(Unauthorized):
        await tokens.verify("~bad.secret", LATER)
    assert await tokens.verify(good, LATER) == "good"
    assert [one.name for one in await tokens.all()] == ["good"]
    assert [one.subject for one in (await lived_in.check()).left] == ["services bad"]
    assert (await lived_in.check(mend=True)).left == ()
    assert await tokens.verify(good, LATER) == "good"


async def test_what_the_check_could_not_look_into_is_told(lived_in: LivedIn) -> None:
    """A key of a wrong type hides what should be in it; items without a place are another server's."""
    await lived_in.redis.command("HSET", keys.item("123456789012"), "Data", "{}")
    await lived_in.redis.pipeline([("DEL", keys.hosts_due()), ("SET", keys.hosts_due(), "x")])
    text = (await lived_in.check()).as_text()
    assert "1 keys not looked into, as their type is wrong" in text
    assert "1 items of others" in text


COUNTERS = {keys.item_ids(): 20, keys.feed_ids(): 3}


@pytest.mark.parametrize(
    "value", [b"9" * 30, b"9223372036854775807", b"9" * 18, b"abc", b"-5", b"007", b"1.5", b"", b"\xff"]
)
@pytest.mark.parametrize("counter", COUNTERS)
async def test_a_spoilt_counter_is_named_and_gives_out_ids_again(lived_in: LivedIn, counter: str, value: bytes) -> None:
    """What needs an id says which counter is spoilt. After a repair the next id lies behind all that were given out,
    the one of a post that is gone since included.
    """
    await lived_in.redis.command("DEL", keys.item("20"))
    await lived_in.check(mend=True)
    await lived_in.redis.command("SET", counter, value)
    if value != b"9" * 18 and value != b"-5":
        with pytest.raises(StoreError, match=f"'{counter}'.*--repair"):
            await counters.take(lived_in.redis, counter)
    found = await lived_in.check()
    assert counter in [one.subject for one in found.left]
    assert (await lived_in.check(mend=True)).left == ()
    assert await counters.take(lived_in.redis, counter) == COUNTERS[counter] + 1


async def test_a_spoilt_counter_costs_no_post_of_another_server(lived_in: LivedIn) -> None:
    """Its items have no place, and ids that may look like ours."""
    await lived_in.redis.command("HSET", keys.item("123456789012"), "Data", "{}", "ID", "x")
    await lived_in.redis.command("SET", keys.item_ids(), "abc")
    assert (await lived_in.check(mend=True)).left == ()
    assert await lived_in.redis.command("HGET", keys.item("123456789012"), "ID") == b"x"
    assert await counters.take(lived_in.redis, keys.item_ids()) == COUNTERS[keys.item_ids()] + 1


async def test_a_spoilt_counter_stops_no_worker_for_good(lived_in: LivedIn) -> None:
    """What couldn't be stored is stored once the counter is mended, and is no dead letter."""
    await lived_in.redis.command("SET", keys.item_ids(), b"9" * 18)
    with pytest.raises(StoreError):
        await lived_in.post("d.example", 3)
    await lived_in.check(mend=True)
    await lived_in.post("d.example", 3)
    assert (await lived_in.check(mend=True)).left == ()
