"""A change of several steps whose process dies after any of them is completed by the same request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import chain

import pytest

from microsub.base.errors import NotFound
from microsub.base.periodic import RoundTiming
from microsub.feeds.record import FeedRecord
from microsub.model.settings import FollowSettings
from microsub.posts.ingest import PostWriter
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.readings import reading_times
from microsub.server.jobs import rebuilding
from tests.support.polling import World, world
from tests.support.posts import NOON, candidate
from tests.support.redis_wrappers import Killing, killed_anywhere

URL, OTHER = "https://blog.example/feed", "https://other.example/feed"
UIDS = ("home", "later")


@dataclass
class Reader:
    """Ann follows a feed of 12 posts in `home`, where she has read five, removed one and muted an author, and another
    feed of 3 posts there. `later` is empty.
    """

    it: World
    redis: Killing

    def __post_init__(self) -> None:
        it = self.it
        self.following = it.following
        self.rules = it.rules
        self.follow_repair = it.follow_repair

    async def publish(self, url: str, count: int, guid: str = "post", link: str = "https://blog.example") -> FeedRecord:
        feed = await self.it.feeds.ensure(url, NOON - 100)
        posts = [
            candidate(
                f"{guid}{n}", at=NOON + n, author="https://loud.example/" if n % 6 == 5 else "https://ann.example/",
                common=f"{link} {n}",
            )
            for n in range(count)
        ]  # fmt: skip
        stored = await PostWriter(self.it.redis).write(feed, posts, NOON)
        await self.it.items.done(feed.id, [one.id for one in stored.new])
        await self.it.feeds.update(feed.id, {"last_success": str(NOON), "next_poll": str(NOON + 9000)})
        return feed

    async def begin(self) -> None:
        await self.it.accounts.add_user("ann", "", NOON)
        for uid in UIDS:
            await self.it.channels.create("ann", uid, NOON, uid)
        await self.publish(URL, 12)
        await self.publish(OTHER, 3, "other", "https://other.example")
        for url in (URL, OTHER):
            await self.following.follow("ann", "home", url, NOON)
        await self.it.timelines.mark_read("ann", "home", ["6", "7", "8", "9", "12"], NOON)
        await self.it.timelines.remove("ann", "home", ["10"], NOON)
        await self.rules.mute("ann", "home", "https://loud.example/", NOON)

    async def state(self) -> dict[str, object]:
        """Everything that a reader sees and that delivery uses."""
        found: dict[str, object] = {}
        for uid in UIDS:
            for key in (keys.posts, keys.unread, keys.hidden):
                name = key("ann", uid)
                found[name] = sorted(await self.redis.command("SORT", name))
            for key in (keys.read, keys.hidden_read):
                found[key("ann", uid)] = sorted(*await reading_times(self.redis, [key("ann", uid)]))
        feeds = await self.it.channels.all_subscriptions("ann")
        found["feeds"] = {uid: [one.feed for one in subscriptions] for uid, subscriptions in feeds.items()}
        for feed in ("1", "2"):
            found[f"followers of {feed}"] = sorted(await self.it.feeds.subscribers(feed))
        return found


@pytest.fixture
async def ann(real_redis: Redis) -> AsyncIterator[Reader]:
    killing = Killing(real_redis)
    async with world(killing) as it:  # type: ignore[arg-type]
        yield Reader(it, killing)


async def test_moving_a_feed_to_another_channel(ann: Reader) -> None:
    """All of its posts are in the new channel, read, unread and muted as before; those of the other feed stay."""

    async def move() -> None:
        await ann.following.move("ann", "later", URL, NOON)

    assert await killed_anywhere(ann.redis, ann.begin, move, ann.state) > 10
    state = await ann.state()
    assert state[keys.posts("ann", "home")] == [b"13", b"14", b"15"]
    assert len(state[keys.read("ann", "later")]) == 5  # type: ignore[arg-type]


async def test_removed_items_stay_away_after_a_move(ann: Reader) -> None:
    """This also holds if the new channel is filled from the store again."""
    await ann.begin()
    await ann.following.move("ann", "later", URL, NOON)
    before = await ann.state()
    await rebuilding(ann.it).rebuild("ann", "later", NOON + 1)
    await ann.it.stages.run_once()
    assert await ann.state() == before


async def test_the_end_of_a_pause_is_finished_by_upkeep(ann: Reader) -> None:
    """What came meanwhile is there, even if the process was killed and nobody ends the pause again."""

    async def pause() -> None:
        await ann.begin()
        await ann.following.change("ann", "home", "1", NOON, settings=FollowSettings(paused=True))
        await ann.publish(URL, 14)

    async def resume() -> None:
        await ann.following.change("ann", "home", "1", NOON, settings=FollowSettings())

    async def upkeep() -> None:
        await ann.follow_repair.run(NOON)
        (follow,) = [one for one in await ann.it.channels.subscriptions("ann", "home") if one.feed == "1"]
        if follow.settings.paused:
            await resume()

    assert await killed_anywhere(ann.redis, pause, resume, ann.state, upkeep) > 5
    assert len((await ann.state())[keys.posts("ann", "home")]) == 14  # type: ignore[arg-type]


async def test_moving_a_feed_is_finished_by_upkeep(ann: Reader) -> None:
    """If the app doesn't repeat its request, once the new channel follows the feed."""

    async def move() -> None:
        await ann.following.move("ann", "later", URL, NOON)

    async def upkeep() -> None:
        await ann.follow_repair.run(NOON)
        if not await ann.it.channels.follows("ann", "later", "1"):
            await move()  # it had not begun

    await killed_anywhere(ann.redis, ann.begin, move, ann.state, upkeep)


async def test_moving_a_feed_is_finished_within_minutes(ann: Reader) -> None:
    """Any worker finishes it after half a minute; a move that still runs isn't touched."""

    async def move() -> None:
        await ann.following.move("ann", "later", URL, NOON)

    async def finished() -> None:
        begun = await ann.it.channels.moves("ann")
        await ann.follow_repair.run_for("ann", NOON + 29)
        assert await ann.it.channels.moves("ann") == begun
        times = iter([NOON, NOON + 60, NOON + 60])

        def clock() -> float:
            if (now := next(times, None)) is None:
                raise asyncio.CancelledError
            return now

        with pytest.raises(asyncio.CancelledError):
            await ann.follow_repair.run_forever(RoundTiming(clock=clock, chance=lambda: -0.5, steady=lambda: 0.0))
        if not await ann.it.channels.follows("ann", "later", "1"):
            await move()  # it had not begun

    await killed_anywhere(ann.redis, ann.begin, move, ann.state, finished)


async def test_moving_a_feed_and_back_after_a_crash(ann: Reader) -> None:
    """Posts of the interrupted move end where the reader wanted them last."""

    async def there_and_back() -> None:
        await ann.following.move("ann", "later", URL, NOON)
        await ann.following.move("ann", "home", URL, NOON)

    async def back() -> None:
        await ann.following.move("ann", "home", URL, NOON)
        await ann.follow_repair.run(NOON)

    await killed_anywhere(ann.redis, ann.begin, there_and_back, ann.state, back)
    assert (await ann.state())["feeds"] == {"notifications": [], "home": ["1", "2"], "later": [], "saved": []}


async def test_following_and_unfollowing(ann: Reader) -> None:
    """Unread posts leave, read ones stay; after a new follow the channel is filled again and gets new posts."""
    for act in (ann.following.unfollow, ann.following.follow):

        async def change(act=act) -> None:  # type: ignore[no-untyped-def]
            await act("ann", "later" if act == ann.following.follow else "home", URL, NOON)

        await killed_anywhere(ann.redis, ann.begin, change, ann.state)


async def test_muting_and_blocking(ann: Reader) -> None:
    """The rule holds for all posts in the channels."""
    for act, url in (
        (ann.rules.unmute, "https://loud.example/"),
        (ann.rules.mute, "https://ann.example/"),
        (ann.rules.block, "https://ann.example/"),
    ):

        async def change(act=act, url=url) -> None:  # type: ignore[no-untyped-def]
            await act("ann", "global" if act == ann.rules.block else "home", url, NOON)

        await killed_anywhere(ann.redis, ann.begin, change, ann.state)


async def test_deleting_a_channel(ann: Reader) -> None:
    """None of its data is left, and nothing is delivered to it; a second request may find that it is gone."""

    async def delete() -> None:
        await ann.following.delete_channel("ann", "home")

    async def again() -> None:
        try:
            await delete()
        except NotFound:
            await ann.follow_repair.run(NOON)

    await killed_anywhere(ann.redis, ann.begin, delete, ann.state, again)


async def test_removing_a_user(ann: Reader) -> None:
    """All data of the user is deleted."""

    async def disabled() -> None:
        await ann.begin()
        await ann.it.accounts.disable_user("ann", NOON)

    async def remove() -> None:
        if user := await ann.it.accounts.user("ann"):
            await ann.it.accounts.delete_disabled(user)

    async def left() -> list[bytes]:
        names = [name async for batch in ann.redis.scan() for name in batch]
        planned = [await ann.redis.command("ZRANGE", name, 0, -1) for name in names if name.startswith(b"due:")]
        return [name for name in (*names, *chain(*planned)) if b"ann" in name]

    await killed_anywhere(ann.redis, disabled, remove, left)
    assert await left() == []


async def test_merging_a_feed_with_the_one_at_its_new_address(ann: Reader) -> None:
    """Wherever the poll that follows the redirect dies, the next one finishes it: every post once, with its state."""
    mover = ann.it.mover

    async def both() -> None:
        await ann.begin()
        await ann.publish("https://new.example/feed", 13)
        await ann.following.follow("ann", "later", "https://new.example/feed", NOON)

    async def merge() -> None:
        feed = await ann.it.feeds.get("1")
        assert feed is not None
        await mover.move(feed, "https://new.example/feed", NOON)

    await killed_anywhere(ann.redis, both, merge, ann.state)
    state = await ann.state()
    assert len(state[keys.read("ann", "home")]) == 4  # type: ignore[arg-type]
    assert state["feeds"] == {"notifications": [], "home": ["2", "3"], "later": ["3"], "saved": []}
