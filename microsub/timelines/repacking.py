"""Making the timelines of an earlier version compact, by and by, while they are read.

In layout 8, the ids that had left a channel were a sorted set, as were its unread items, and the times at which items
were read; the order of arrival was kept for everybody. The migration has put each set of ids that left aside, and they
move into the compact form in small batches: scripts ask both, so a channel can wait for as long as it takes. They use
the other sets as they are, while the compact form grows beside them in small steps; it begins again when the channel
changes, and replaces them at last. Orders of arrival that nothing needs are deleted.
A process that takes over goes on with the rest. Repeating it changes nothing.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import KW_ONLY, asdict, dataclass, replace

import structlog

from microsub.accounts import Accounts
from microsub.model.reader import NATIVE_APP
from microsub.redis import keys
from microsub.redis.connect import bytes_in_sets
from microsub.redis.lease import leased
from microsub.redis.protocol import Redis, ScriptCall
from microsub.redis.readings import RECORD
from microsub.redis.scripts import batches, load
from microsub.timelines.channels.follows import every_channel
from microsub.timelines.sync.arrivals import forget_order

_MOVE = load("gone_move")
_PACK_UNREAD = load("unread_pack")
_PACK_READINGS = load("readings_pack")
_BATCH = 500
"""Ids at once: Redis moves them in about a millisecond."""
_RESTARTS = 5
"""A channel that changes so often while its items are packed is packed in one step."""
_REST = 4.0
"""The pause after a batch, in durations of the batch."""
_USERS = 50

_Step = Callable[[str, int], ScriptCall]
"""From 'pack' or 'count' and the number of ids of one step."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TimelineRepacking:
    """The result: the number of `ids` that had left, of `unread` and `read` ids, and of `orders` of arrival that
    nothing needs; bytes of Redis `before` and `after`. `dry_run`: nothing was changed.
    """

    ids: int = 0
    unread: int = 0
    read: int = 0
    orders: int = 0
    before: int = 0
    after: int = 0
    dry_run: bool = False
    left: bool = False

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        return {**asdict(self), "freed": self.before - self.after}

    def as_text(self) -> str:
        """For people."""
        if self.left:
            return "another process is packing the timelines"
        did = "would be packed" if self.dry_run else "were packed"
        freed = f"{'would free' if self.dry_run else 'freed'} {(self.before - self.after) / 1e6:,.1f}"
        ids = f"{self.ids} ids of posts that have left timelines, {self.unread} of unread and {self.read} of read ones"
        what = f"{ids}, and {self.orders} orders of arrival that nothing needs,"
        return f"{what} {did}, which {freed} of {self.before / 1e6:,.1f} MB"


@dataclass(eq=False, repr=False)
class GoneRepacking:
    """Packs the ids in timelines of a migrated store. Any number of workers may call it; one works."""

    redis: Redis
    accounts: Accounts
    _: KW_ONLY
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def run(self, _now: float = 0) -> TimelineRepacking:
        """Pack all that are left, with pauses. Raises StoreError; the next call goes on from there."""
        report = TimelineRepacking()
        if await self.redis.command("GET", keys.packing_timelines()) is None:
            return report
        async with leased(self.redis, "packing timelines") as lease:
            if lease is None:
                return TimelineRepacking(left=True)
            async for user, uid in self._places():
                report = await self._channel(user, uid, report)
                for key, step in self._states(user, uid):
                    count, size = await self._packed(key, step)
                    if count:
                        after = await self.redis.command("MEMORY", "USAGE", key)
                        report = _with_states(report, key, count, size, after or 0)
            async for user, size in self._orders():
                await forget_order(self.redis, user)
                report = replace(_together(report, 0, size, 0), orders=report.orders + 1)
            await self.redis.command("DEL", keys.packing_timelines())
            log.info("all timelines are packed", **report.as_dict())
        return report

    async def foresee(self) -> TimelineRepacking:
        """The result that `run` would have; nothing is changed. The data may still have an earlier layout."""
        report = TimelineRepacking(dry_run=True)
        bytes_of = await bytes_in_sets(self.redis)
        async for user, uid in self._places():
            for key in (keys.gone_before(user, uid), keys.gone(user, uid)):
                if await self.redis.command("TYPE", key) == b"zset":
                    count, size = await self.redis.pipeline([("ZCARD", key), ("MEMORY", "USAGE", key)])
                    report = _together(report, count, size, bytes_of(count))
            for key, step in self._states(user, uid):
                size = await self.redis.command("MEMORY", "USAGE", key) or 0
                if count := int(await self.redis.script(step("count", 0))):
                    after = bytes_of(count) if key == keys.unread(user, uid) else count * RECORD.size
                    report = _with_states(report, key, count, size, after)
        async for _, size in self._orders():
            report = replace(_together(report, 0, size, 0), orders=report.orders + 1)
        return report

    async def _places(self) -> AsyncIterator[tuple[str, str]]:
        """All channels with ids to pack, removed ones included."""
        for users in batches(await self.accounts.users(), _USERS):
            found = [(user.name, uid) for user in users for uid in await every_channel(self.redis, user.name)]
            for some in batches(found):
                kinds = (keys.gone_before, keys.gone, keys.unread, keys.read, keys.hidden_read)
                commands = [("EXISTS", *(key(*place) for key in kinds)) for place in some]
                for place, there in zip(some, await self.redis.pipeline(commands), strict=True):
                    if there:
                        yield place

    async def _orders(self) -> AsyncIterator[tuple[str, int]]:
        """Users with an order of arrival that no app password, device or output feed needs, and its bytes."""
        for user in await self.accounts.users():
            name = user.name
            outputs, devices, *sizes = await self.redis.pipeline(
                [
                    ("SCARD", keys.outputs(name)),
                    ("HLEN", keys.devices_told(name)),
                    *(
                        ("MEMORY", "USAGE", key(name))
                        for key in (keys.arrivals, keys.arrivals_again, keys.arrivals_more)
                    ),
                ]
            )
            if outputs or devices or not any(sizes):
                continue
            if not any(NATIVE_APP in token.scopes for token in await self.accounts.tokens(name)):
                yield name, sum(size or 0 for size in sizes)

    def _states(self, user: str, uid: str) -> Iterator[tuple[str, _Step]]:
        """The keys with the states of the channel's items, each with the script that packs or counts them."""
        yield keys.unread(user, uid), lambda how, most: _PACK_UNREAD(user, uid, how=how, most=most)
        pairs = ((keys.read, keys.read_packing), (keys.hidden_read, keys.hidden_read_packing))
        for read, packing in pairs:
            key, growing = read(user, uid), packing(user, uid)
            yield key, functools.partial(_pack_readings, key, growing)

    async def _packed(self, key: str, step: _Step) -> tuple[int, int]:
        """Pack these ids, with pauses; their number, and the bytes of Redis before. 0 if they are packed."""
        size = await self.redis.command("MEMORY", "USAGE", key)
        first = count = steps = 0
        while True:
            began = time.monotonic()
            most = _BATCH if steps < _RESTARTS * (1 + first / _BATCH) else max(first, count)
            count = int(await self.redis.script(step("pack", most)))
            if not count:
                return first, size or 0 if first else 0
            first, steps = first or count, steps + 1
            await self.pause(_REST * (time.monotonic() - began))

    async def _channel(self, user: str, uid: str, report: TimelineRepacking) -> TimelineRepacking:
        sizes = [("MEMORY", "USAGE", key) for key in (keys.gone_before(user, uid), keys.gone(user, uid))]
        rest, packed = (size or 0 for size in await self.redis.pipeline(sizes))
        count, moved = 0, _BATCH
        while rest and moved == _BATCH:
            began = time.monotonic()
            moved = int(await self.redis.script(_MOVE(user, uid, most=_BATCH)))
            count += moved
            await self.pause(_REST * (time.monotonic() - began))
        after = await self.redis.command("MEMORY", "USAGE", keys.gone(user, uid)) if rest else None
        return _together(report, count, rest, (after or 0) - packed if rest else 0)


def _pack_readings(read: str, packing: str, how: str, most: int) -> ScriptCall:
    return _PACK_READINGS(read=read, packing=packing, how=how, most=most)


def _with_states(report: TimelineRepacking, key: str, count: int, before: int, after: int) -> TimelineRepacking:
    report = _together(report, 0, before, after)
    if key.endswith(":unread"):
        return replace(report, unread=report.unread + count)
    return replace(report, read=report.read + count)


def _together(report: TimelineRepacking, ids: int, before: int, after: int) -> TimelineRepacking:
    return replace(report, ids=report.ids + ids, before=report.before + before, after=report.after + after)
