"""The functions of timelines with one connection and one post store: short names for tests with many steps."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import partial

from microsub.accounts.store import grant
from microsub.model.reader import Credential, Grant, PageQuery, PageRows, Reason, Row, TimelineItem
from microsub.posts.items import Items
from microsub.redis import keys, scan
from microsub.redis.protocol import Redis
from microsub.redis.readings import reading_times
from microsub.redis.scripts import load
from microsub.timelines import pages, read_state, remove, rules
from microsub.timelines.add import Adder, Incoming, filtering_channels
from microsub.timelines.gone import absences
from microsub.timelines.remove import Leaving


class Timelines(Adder):
    """All operations on timelines, with one connection."""

    def __init__(self, redis: Redis, items: Items) -> None:
        super().__init__(redis, items)
        self._read_state = read_state.ReadState(redis, items)
        self.move = partial(remove.move_items, redis, items)
        self.unfollow = partial(remove.take_out_feed, redis, items)
        self.stock = partial(remove.stock_of, redis)
        self.expire_read = partial(remove.expire_read, redis)
        self.trim = partial(remove.trim, redis)
        self.filtering = partial(filtering_channels, redis)
        self.delivery = partial(Incoming, items)

    async def walk(self, user: str, uid: str) -> list[Row]:
        return [row async for rows in pages.walk_rows(self._redis, user, uid) for row in rows]

    async def page(self, user: str, uid: str, query: PageQuery, now: float) -> PageRows:
        return (await pages.read_page(self._redis, user, uid, query, now, None, self._items))[1]

    async def page_with_token(
        self, credential: Credential, uid: str, query: PageQuery, now: float
    ) -> tuple[Grant, PageRows]:
        user = credential.user
        scopes, rows = await pages.read_page(self._redis, user, uid, query, now, credential, self._items)
        return grant(user, scopes, behind=rows.behind), rows

    async def mark_read(self, user: str, uid: str, ids: Sequence[str], now: float) -> int:
        return len(await self._read_state.mark(user, uid, ids, "read", now))

    async def mark_all_read(self, user: str, uid: str, now: float) -> int:
        return len(await self._read_state.mark_all(user, uid, now))

    async def mark_read_before(self, user: str, uid: str, item: str, now: float) -> int:
        return len(await self._read_state.mark_before(user, uid, item, now))

    async def mark_unread(self, user: str, uid: str, ids: Sequence[str], now: float) -> int:
        return len(await self._read_state.mark(user, uid, ids, "unread", now))

    async def remove(self, user: str, uid: str, ids: Sequence[str], now: float) -> int:
        return len(await remove.take_out(self._redis, user, uid, ids, Leaving(Reason.REMOVED, removed_too=False), now))

    async def withdraw(
        self, user: str, uid: str, ids: Sequence[str], reason: Reason, now: float, only_unread: bool = False
    ) -> int:
        return len(await remove.take_out(self._redis, user, uid, ids, Leaving(reason, only_unread), now))

    def hidden(self, user: str, uid: str) -> AsyncIterator[list[str]]:
        return scan.members(self._redis, keys.hidden(user, uid))

    async def recheck_in(self, places: Sequence[tuple[str, str]], items: Sequence[TimelineItem], now: float) -> int:
        return sum(map(len, await rules.settle_in(self._redis, places, items, now)))

    async def left_for_good(self, user: str, uid: str, ids: Sequence[str]) -> set[str]:
        """The ids among these that have left the channel permanently."""
        left = [one async for some in absences(self._redis, user, uid) for one in some if one.id in ids]
        return {one.id for one in left if not one.reason.may_return}


async def unread_of_layout_12(redis: Redis, user: str, uid: str) -> None:
    """Put what is unread in a channel into the form of that layout: a sorted set, with the scores of `posts`."""
    key = keys.unread(user, uid)
    if await redis.command("TYPE", key) != b"set":
        return
    ids = await redis.command("SMEMBERS", key)
    scores = await redis.command("ZMSCORE", keys.posts(user, uid), *ids)
    rows = [part for score, one in zip(scores, ids, strict=True) for part in (score or 0, one)]
    await redis.pipeline([("DEL", key, keys.unread_packing(user, uid)), ("ZADD", key, *rows)])


async def readings_of_layout_14(redis: Redis, user: str, uid: str) -> None:
    """Put the times of reading of a channel into the form of that layout: sorted sets."""
    sets = [keys.read(user, uid), keys.hidden_read(user, uid)]
    for key, times in zip(sets, await reading_times(redis, sets), strict=True):
        rows = [part for item, at in times.items() for part in (at + 0.25, item)]
        await redis.pipeline([("DEL", key, f"{key}:packing"), *([("ZADD", key, *rows)] if rows else [])])


async def pack_readings(redis: Redis, user: str, uid: str, most: int = 10**9) -> None:
    """Put them into the form of later layouts, as upkeep does; a step of it if they are more than `most`."""
    pairs = ((keys.read, keys.read_packing), (keys.hidden_read, keys.hidden_read_packing))
    for read, packing in pairs:
        await redis.script(
            load("readings_pack")(read=read(user, uid), packing=packing(user, uid), how="pack", most=most)
        )
