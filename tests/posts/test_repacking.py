"""Packing of the posts that an earlier version stored as plain JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from microsub.feeds.record import FeedRecord, Feeds
from microsub.formats.wire import dump, identified
from microsub.posts.ingest import PostWriter
from microsub.posts.items import Items
from microsub.posts.packing import packed
from microsub.posts.repacking import Repacking
from microsub.redis import keys
from microsub.redis.lease import leased
from microsub.redis.migrations import FIRST, migrate
from microsub.redis.protocol import Redis
from tests.conftest import fake_redis
from tests.support import examples, no_pause
from tests.support.histories import History, try_histories
from tests.support.invariants import all_keys
from tests.support.posts import NOON, candidate
from tests.support.redis_wrappers import Between, Killing, Wrapped, killed_anywhere, once

BLOG = "https://blog.example/atom"
NAMES = tuple(f"post-{number}" for number in range(7))
MARK = "packed"


def repacking(redis: Redis) -> Repacking:
    return Repacking(redis, pause=no_pause)


async def of_layout_8(redis: Redis, names: Sequence[str] = NAMES) -> dict[str, str]:
    """Posts as the layout before packing has them, after the migration; ids by name."""
    feed = await Feeds(redis).ensure(BLOG, NOON)
    stored = (await PostWriter(redis).write(feed, [candidate(name) for name in names], NOON)).new
    ids = {name: item.id for name, item in zip(names, stored, strict=True)}
    for data, item_id in zip(await Items(redis).data(list(ids.values())), ids.values(), strict=True):
        await redis.command("HSET", keys.item(item_id), "Data", data)
    await redis.command("SET", keys.schema(), FIRST)
    await migrate(redis)
    return ids


async def hashes(redis: Redis, ids: Sequence[str]) -> list[dict[bytes, bytes]]:
    """All fields of the items, as they are stored."""
    rows = await redis.pipeline([("HGETALL", keys.item(item_id)) for item_id in ids])
    return [dict(zip(row[::2], row[1::2], strict=True)) for row in rows]


async def is_plain(redis: Redis, item_id: str) -> bool:
    return (await redis.command("HGET", keys.item(item_id), "Data")).startswith(b"{")


@pytest.fixture
async def ids(redis) -> dict[str, str]:
    return await of_layout_8(redis)


@pytest.fixture
async def feed(redis, ids) -> FeedRecord:
    return await Feeds(redis).ensure(BLOG, NOON)


async def test_all_posts_are_packed_and_nothing_else_changes(redis, ids):
    """The JSON and all other fields are what they were, in less than half the bytes. Then there is nothing to do."""
    before, rows = await Items(redis).data([*ids.values()]), await hashes(redis, [*ids.values()])
    report = await repacking(redis).run()
    after = await hashes(redis, [*ids.values()])
    assert report.posts == len(ids)
    assert [report.before, report.after] == [sum(len(row[b"Data"]) for row in some) for some in (rows, after)]
    assert report.after < report.before / 2
    assert await Items(redis).data([*ids.values()]) == before
    assert [{**row, b"Data": b""} for row in after] == [{**row, b"Data": b""} for row in rows]
    assert await redis.command("EXISTS", keys.packing()) == 0
    assert (await repacking(redis).run()).posts == 0


async def test_a_dry_run_says_the_same_and_changes_nothing(redis, ids):
    """Also while the data has the earlier layout."""
    rows = await hashes(redis, [*ids.values()])
    await redis.command("DEL", keys.packing())
    foreseen = await repacking(redis).foresee()
    assert foreseen.dry_run
    assert await hashes(redis, [*ids.values()]) == rows
    await redis.command("SET", keys.packing(), 1)
    done = await repacking(redis).run()
    assert (foreseen.posts, foreseen.before, foreseen.after) == (done.posts, done.before, done.after)


async def test_a_dry_run_of_many_posts_looks_at_some(redis, ids, monkeypatch):
    """All posts have about the same size here, so the estimate is good; it says that it is one."""
    monkeypatch.setattr("microsub.posts.repacking._SAMPLE", 3)
    foreseen, done = await repacking(redis).foresee(), await repacking(redis).run()
    assert foreseen.estimated
    assert abs(foreseen.posts - done.posts) <= 2
    assert foreseen.before == pytest.approx(done.before, rel=0.3)


async def test_an_edit_in_between_wins(redis, ids, feed):
    """A post that is edited after it was read, and before it is packed, has the edited text."""
    edited = candidate(NAMES[3], text="edited")

    async def edit() -> None:
        await PostWriter(redis).write(feed, [edited], NOON + 1)

    report = await repacking(Between(redis, once("item_pack", edit))).run()
    assert report.posts == len(ids) - 1
    (data,) = await Items(redis).data([ids[NAMES[3]]])
    assert b"edited" in data
    assert not await is_plain(redis, ids[NAMES[3]])


async def test_a_post_deleted_in_between_stays_gone(redis, ids):
    """Nothing of it comes back."""

    async def delete() -> None:
        await redis.command("DEL", keys.item(ids[NAMES[3]]))

    await repacking(Between(redis, once("item_pack", delete))).run()
    assert await redis.command("EXISTS", keys.item(ids[NAMES[3]])) == 0


async def test_posts_that_are_about_to_be_deleted_and_those_of_another_server_are_left_alone(redis, ids):
    """They have no score."""
    await redis.command("HDEL", keys.item(ids[NAMES[0]]), "score")
    await repacking(redis).run()
    assert [await is_plain(redis, one) for one in ids.values()] == [True, *[False] * 6]


async def test_corrupt_posts_and_short_ones_stay_as_they_are(redis, ids):
    """So does a post that was packed already."""
    odd = {NAMES[0]: b"\x28\xb5\x2f\xfdnot a frame", NAMES[1]: b"{}", NAMES[2]: b"", NAMES[3]: b"[" * 500}
    for name, data in odd.items():
        await redis.command("HSET", keys.item(ids[name]), "Data", data)
    report = await repacking(redis).run()
    assert report.posts == len(ids) - len(odd)
    assert [await redis.command("HGET", keys.item(ids[name]), "Data") for name in odd] == [*odd.values()]


async def test_large_posts_are_packed_a_few_megabytes_at_a_time(redis, ids, monkeypatch):
    """No more than that is in memory at once."""
    monkeypatch.setattr("microsub.posts.repacking.PIECE", 500)
    read: list[int] = []

    class Reading(Wrapped):
        async def pipeline(self, commands):
            if commands[0][0] == "HMGET":
                read.append(len(commands))
            return await super().pipeline(commands)

    report = await repacking(Reading(redis)).run()
    assert report.posts == len(ids)
    assert len(read) > 2


async def test_one_process_works_at_a_time(redis, ids):
    """A second one says so, and leaves the posts to it."""
    async with leased(redis, "packing"):
        assert (await repacking(redis).run()).left
    assert await is_plain(redis, ids[NAMES[0]])
    reports = await asyncio.gather(*(repacking(redis).run() for _ in range(3)))
    assert sum(report.posts for report in reports) == len(ids)


async def test_a_killed_packing_loses_nothing(real_redis, monkeypatch):
    """It goes on where it was: the posts are what they were, all are packed, and nothing else is left."""
    monkeypatch.setattr("microsub.posts.repacking._BATCH", 2)
    redis = Killing(real_redis)

    async def again() -> None:
        await redis.command("DEL", keys.lease("packing"))  # as when it has run out
        await repacking(redis).run()

    async def state() -> object:
        ids = list(map(str, range(1, len(NAMES) + 1)))
        return await hashes(redis, ids), await Items(redis).data(ids), await all_keys(redis)

    trips = await killed_anywhere(redis, lambda: of_layout_8(redis), repacking(redis).run, state, again)
    assert trips > 10


class Histories(History):
    """Edits, look-ups, new and deleted posts in any order, while plain posts are packed batch by batch."""

    def __init__(self) -> None:
        super().__init__()
        self.model: dict[str, bytes] = {}
        self.ids: dict[str, str] = {}
        self.hashes: dict[str, str] = {}

    @initialize()
    def begin(self) -> None:
        self.ids = self.run(of_layout_8(self.redis))
        stored = self.run(Items(self.redis).data([*self.ids.values()]))
        self.model = {name: data for name, data in zip(self.ids, stored, strict=True) if data is not None}
        self.feed = self.run(Feeds(self.redis).ensure(BLOG, NOON))

    @rule(name=st.sampled_from(NAMES), text=st.text(max_size=200))
    def edit(self, name: str, text: str) -> None:
        if name in self.model:
            one = candidate(name, text=text)
            stored = self.run(PostWriter(self.redis).write(self.feed, [one], NOON))
            # A document with the post as it came last changes nothing, whatever a look-up has added to it.
            if one.hash == self.hashes.setdefault(name, candidate(name).hash):
                assert not stored.updated
                return
            self.hashes[name] = one.hash
            self.model[name] = identified(one.wire, self.ids[name], self.feed.id)

    @rule(name=st.sampled_from(NAMES))
    def complete(self, name: str) -> None:
        if name in self.model:
            ((digest, version),) = self.run(Items(self.redis).fields([self.ids[name]], ("hash", "version")))
            data = dump({"type": "entry", "name": f"completed {len(self.model[name])}"})
            done = Items(self.redis).complete(
                self.ids[name], (version or b"").decode(), digest.decode(), {"Data": data}
            )
            assert self.run(done)
            self.model[name] = data

    @rule(name=st.sampled_from(NAMES))
    def delete(self, name: str) -> None:
        self.run(self.redis.command("DEL", keys.item(self.ids[name])))
        self.model.pop(name, None)

    @rule(count=st.integers(1, 3))
    def pack(self, count: int) -> None:
        """Some batches of two, and the process dies."""
        left = count

        class Dying(Wrapped):
            async def command(self, *args):
                nonlocal left
                if args[0] == "SET" and args[1] == keys.packing():
                    left -= 1
                    if not left:
                        raise ConnectionError
                return await super().command(*args)

        async def work() -> None:
            await self.redis.command("DEL", keys.lease("packing"))
            with suppress(ConnectionError):
                await repacking(Dying(self.redis)).run()

        self.run(work())

    @invariant()
    def each_post_is_what_it_should_be(self) -> None:
        stored = self.run(Items(self.redis).data([*self.ids.values()]))
        assert dict(zip(self.ids, stored, strict=True)) == {name: self.model.get(name) for name in self.ids}

    def teardown(self) -> None:
        async def finish() -> list[bool]:
            await self.redis.command("DEL", keys.lease("packing"))
            await repacking(self.redis).run()
            return [await is_plain(self.redis, self.ids[name]) for name in self.model]

        plain = self.run(finish())
        assert plain == [packed(data) == data for data in self.model.values()]
        super().teardown()


def test_any_history_with_packing_in_between(monkeypatch):
    """After each step, every post is its last version; at the end all are packed that become smaller."""
    monkeypatch.setattr("microsub.posts.repacking._BATCH", 2)
    try_histories(Histories, fake_redis, examples(12), 20)
