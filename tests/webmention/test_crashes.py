"""A process may die between any two steps of a webmention: an acknowledged one is shown exactly once."""

from __future__ import annotations

import contextlib

import pytest

from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.webmention.mention import Mention
from microsub.work import SHARDS, Patience
from tests.support.invariants import all_keys
from tests.support.mentions import TARGET, Mentions, entry, mentioning
from tests.support.redis_wrappers import KilledError, Killing

IMPATIENT = Patience(idle=0.0, deliveries=1000)


async def again(mentions: Mentions) -> None:
    """Simulates the next minutes: the dead worker's leases end, and all that is due is retried."""
    await mentions.it.redis.command("DEL", *(keys.lease(f"mentions:{shard}") for shard in range(SHARDS)))
    for _ in range(3):
        mentions.it.clock.advance(700)
        await mentions.look()


async def test_killed_while_it_is_received(real_redis: Redis) -> None:
    """A webmention that was answered with 202 is checked; otherwise the sender sends it again."""
    killing = Killing(real_redis)
    for step in killing.each_step():
        await real_redis.command("FLUSHDB")
        async with mentioning(killing, patience=IMPATIENT) as mentions:
            source = mentions.serve(entry())
            receiver = mentions.it.parts.mentions
            answered = False
            with contextlib.suppress(KilledError), killing.dying(step):
                await receiver.receive("127.0.0.1", "alice", source, TARGET)
                answered = True
            if not answered:
                await receiver.receive("127.0.0.1", "alice", source, TARGET)
            await again(mentions)
            assert len(await mentions.shown()) == 1, f"killed at step {step} of {killing.steps}"
            assert not await mentions.it.mentions.waiting("alice", mentions.it.now + 86_400, 10)
    assert killing.steps > 3


@pytest.mark.parametrize("what", ["shown", "updated", "deleted", "rejected"])
async def test_killed_during_verification(real_redis: Redis, what: str) -> None:
    """Whatever the result, there is at most one post, and nothing waits forever."""
    killing = Killing(real_redis)
    for step in killing.each_step():
        await real_redis.command("FLUSHDB")
        async with mentioning(killing, patience=IMPATIENT) as mentions:
            if what != "shown":
                await mentions.receive(entry(text="before"))
                mentions.it.clock.advance(60)
            if what == "rejected":
                await mentions.it.mentions.order("alice", (await mentions.only()).id, "rejected", mentions.it.now)
            else:
                mentions.serve(entry(text="now"), status=410 if what == "deleted" else 200)
                assert await mentions.send() == 202
            with contextlib.suppress(KilledError), killing.dying(step):
                await mentions.look()
            await again(mentions)
            where = f"killed at step {step} of {killing.steps}"
            texts = [item["content"]["text"] for item in await mentions.shown()]
            assert ["now" in text for text in texts] == ([True] if what in {"shown", "updated"} else []), where
            assert not await mentions.it.mentions.waiting("alice", mentions.it.now + 86_400, 10), where
            assert (await mentions.it.check()).is_clean, where
            if what == "deleted":
                await mentions.receive(entry(text="back"))
                assert len(await mentions.shown()) == 1, where
    assert killing.steps > 10


async def test_one_received_during_verification_is_verified_again(real_redis: Redis) -> None:
    """In the end, the version of the source that was sent last is shown."""
    async with mentioning(real_redis) as mentions:
        source = mentions.serve(entry(text="first"))
        assert await mentions.send() == 202
        look = mentions.it.verifier._look

        async def slow(mention: Mention) -> object:
            found = await look(mention)
            mentions.serve(entry(text="second"))
            mentions.it.clock.advance(1)
            assert await mentions.send(source) == 202
            mentions.it.verifier._look = look  # type: ignore[method-assign]
            return found

        mentions.it.verifier._look = slow  # type: ignore[method-assign,assignment]
        await mentions.look()
        await mentions.look()
        (item,) = await mentions.shown()
        assert "second" in item["content"]["text"]


async def test_lost_due_times_are_restored_within_a_day(real_redis: Redis) -> None:
    """The due set is derived data: a daily check of all users writes it again."""
    async with mentioning(real_redis) as mentions:
        mentions.serve(entry())
        assert await mentions.send() == 202
        await real_redis.command("DEL", *(keys.due("mentions", shard) for shard in range(SHARDS)))
        await mentions.look()
        assert await mentions.shown() == []
        await mentions.it.verifier.look_at_all(mentions.it.now)
        await mentions.look()
        assert await mentions.kinds() == ["reply"]


async def test_a_user_who_is_deleted_leaves_nothing(real_redis: Redis) -> None:
    """List and queue are deleted, and no source is fetched for the user."""
    async with mentioning(real_redis) as mentions:
        await mentions.receive(entry())
        assert await mentions.send() == 202
        await mentions.it.accounts.disable_user("alice", mentions.it.now)
        asked = mentions.site.count("/1")
        await mentions.look()
        assert mentions.site.count("/1") == asked
        user = await mentions.it.accounts.user("alice")
        assert user is not None
        assert await mentions.it.accounts.delete_disabled(user)
        left = [key for key in await all_keys(real_redis) if b"alice" in key]
        assert left == []
