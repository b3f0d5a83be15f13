"""The sweep deletes items to which no timeline or output feed refers, except the newest of each feed.

All references are noted in a bitmap by id; then all items are compared with it. Ids that are assigned after the
beginning are exempt. Items without references are condemned by one sweep and deleted by a later one that begins at
least an hour after, so that concurrent changes lose nothing (`posts.garbage`).

It runs once a day (`work.calendar`), in small batches with pauses.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, replace

import structlog

from microsub.accounts import Accounts
from microsub.configuration.model import InstanceSettings
from microsub.feeds import Feeds, all_addresses, forget_gone_addresses
from microsub.posts import Candidate, garbage
from microsub.redis.protocol import Redis
from microsub.redis.scripts import batches
from microsub.timelines import OtherReferences, erase_posts, references, subscriptions, withdraw
from microsub.work import Stream

GRACE = 3600.0
"""Seconds between the condemnation of an item and the beginning of the sweep that may delete it."""

_PAUSE = 0.005
"""Seconds after each batch, so that Redis has time for users' requests."""

_BATCH = 500


_CHUNK = 18
_PLACES = (1 << _CHUNK) - 1
"""A bitmap is stored in chunks of 2**18 ids (32 KiB), so that a single large id takes only one chunk."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SweepReport:
    """The results of a sweep, in numbers of items: `reached` by references, `examined` in the store, `condemned` (all
    that have the mark now), `deleted`, and `tombstones` that were forgotten; `addresses` are forgotten URLs of deleted
    feeds, and `hollow` ids of deleted posts, removed from timelines. With `dry_run` nothing was changed: `condemned`,
    `deleted` and `hollow` are what would change, and the other two aren't looked for.
    """

    dry_run: bool = False
    reached: int = 0
    examined: int = 0
    condemned: int = 0
    deleted: int = 0
    tombstones: int = 0
    addresses: int = 0
    hollow: int = 0

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        return asdict(self)

    def as_text(self) -> str:
        """For people."""
        would = "would leave" if self.dry_run else "left"
        return (
            f"{self.deleted} of {self.examined} items {would} the store; {self.condemned} more are in no "
            "timeline and will be removed next time"
        )


async def _usually_kept() -> int:
    return InstanceSettings().keep_per_feed


@dataclass(eq=False, repr=False)
class Sweeping:
    """Sweeps the post store.

    `kept` is the number of a feed's newest posts that stay in any case: new followers begin with them.
    """

    redis: Redis
    accounts: Accounts
    feeds: Feeds
    outputs: OtherReferences
    _: KW_ONLY
    kept: Callable[[], Awaitable[int]] = _usually_kept
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def run(self, now: float, dry_run: bool = False) -> SweepReport:
        """Sweep once; `now` is Unix time.

        Raises StoreError; an interrupted sweep is simply repeated.
        """
        if await self._is_behind(now):
            return SweepReport(dry_run)
        kept = await self.kept()
        mark = await garbage.newest_id(self.redis)
        reached = await self._reached(mark)
        report = SweepReport(dry_run, reached=reached.count())
        stored = Bitmap(mark)
        async for ids in garbage.stored_ids(self.redis):
            old = [item for item in ids if item <= mark]
            stored.add_all(old)
            report = replace(report, examined=report.examined + len(old))
            unwanted = [str(item) for item in dict.fromkeys(old) if item not in reached]
            for some in batches(unwanted, _BATCH):
                found = await garbage.candidates(self.redis, some)
                report = await self._decide([one for one in found if one.rank is None or one.rank >= kept], now, report)
                await self.pause(_PAUSE)
        hollow = await self._hollow(reached, stored, now, dry_run)
        report = replace(report, hollow=hollow)
        if not dry_run:
            report = replace(report, tombstones=await self._forget(now), addresses=await self._forget_addresses(now))
            if report.deleted:
                log.info("swept", **report.as_dict())
        return report

    async def expire(self, feed_id: str, limit: int, now: float) -> int:
        """Delete the posts of one feed at once, except its `limit` newest and those with references.

        Returns how many left. Reads all timelines twice: a post that is added meanwhile stays, and a post that is added
        too late for that leaves no id behind (`erase`).
        """
        ids: Sequence[str] = await self.feeds.item_ids(feed_id, limit)
        for turn in range(2):
            mark = max(map(int, ids), default=0)
            reached = await self._reached(mark, only={int(item) for item in ids})
            ids = [item for item in ids if int(item) not in reached]
            if turn == 0:
                await garbage.condemn(self.redis, ids, now)
        doomed = [one for one in await garbage.candidates(self.redis, ids) if one.condemned]
        return len(await erase_posts(self.redis, self.accounts, self.outputs, doomed, now, wanted_too=False))

    async def erase(self, post: Candidate, now: float) -> None:
        """Delete a post from all timelines and the store. Repeat the call after an interruption."""
        await erase_posts(self.redis, self.accounts, self.outputs, [post], now, wanted_too=True)

    async def _is_behind(self, now: float) -> bool:
        """Whether messages have waited so long that their items could look unreferenced."""
        oldest = await Stream(self.redis, "stored").oldest_time()
        if oldest is None or oldest >= now - GRACE / 2:
            return False
        log.warning("delivery is behind; the sweep was skipped", seconds=round(now - oldest))
        return True

    async def _hollow(self, reached: Bitmap, stored: Bitmap, now: float, dry_run: bool) -> int:
        """Remove ids from timelines whose items no longer exist; returns their number.

        An item is written before any timeline gets its id, and the process that adds an id then checks that its item
        still exists. So such ids come from a process that died between the two, while the item was deleted.
        """
        count = 0
        for ids in reached.but_not(stored, _BATCH):
            dead = await garbage.without_item(self.redis, ids)
            count += len(dead)
            if dead and not dry_run:
                await withdraw(self.redis, self.accounts, self.outputs, dead, now)
            await self.pause(_PAUSE)
        if count and not dry_run:
            log.warning("ids of missing posts were removed from timelines", posts=count)
        return count

    async def _decide(self, unwanted: Sequence[Candidate], now: float, report: SweepReport) -> SweepReport:
        due = [one for one in unwanted if one.condemned and float(one.condemned) <= now - GRACE]
        ids = {one.id for one in due}
        recent = [one for one in unwanted if one.id not in ids]
        deleted = len(due)
        if not report.dry_run:
            await garbage.condemn(self.redis, [one.id for one in recent], now)
            deleted = await garbage.delete(self.redis, due, now)
        return replace(report, condemned=report.condemned + len(recent), deleted=report.deleted + deleted)

    async def _reached(self, mark: int, only: Collection[int] | None = None) -> Bitmap:
        """The ids up to `mark` that have references.

        An id that moves from an unread set to one already read is missed. But its mover reads the item first, which
        removes its mark, so missing it doesn't lead to a deletion.
        """
        found = Bitmap(mark)
        for user in await self.accounts.users():
            for referring in (references(self.redis, user.name), self.outputs.references(user.name)):
                async for batch in referring:
                    found.add(batch, only)
            await self.pause(0)
        return found

    async def _forget(self, now: float) -> int:
        forgotten = 0
        for some in batches(await self.feeds.all_ids(), _BATCH):
            forgotten += await garbage.forget_tombstones(self.redis, some, now)
        return forgotten

    async def _forget_addresses(self, now: float) -> int:
        """Forget URLs whose feeds no longer exist: like items, marked by one sweep and forgotten by a later one."""
        followed: set[str] = set()
        for user in await self.accounts.users():
            followed |= await subscriptions(self.redis, user.name)
        forgotten = 0
        async for batch in all_addresses(self.redis):
            forgotten += await forget_gone_addresses(self.redis, batch, followed, now, GRACE)
            await self.pause(_PAUSE)
        return forgotten


class Bitmap:
    """A set of ids from 0 to `most`, with a bit for each; long gaps take no memory."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._chunks: defaultdict[int, bytearray] = defaultdict(lambda: bytearray(1 << (_CHUNK - 3)))

    def add(self, ids: Sequence[str], only: Collection[int] | None = None) -> None:
        """Add ids, except those above the limit and those that aren't in `only`."""
        chunks, most = self._chunks, self._most
        for text in ids:
            number = int(text)
            if number <= most and (only is None or number in only):
                chunks[number >> _CHUNK][(number & _PLACES) >> 3] |= 1 << (number & 7)

    def add_all(self, numbers: Sequence[int]) -> None:
        """Add ids, none of them above the limit."""
        chunks = self._chunks
        for number in numbers:
            chunks[number >> _CHUNK][(number & _PLACES) >> 3] |= 1 << (number & 7)

    def but_not(self, other: Bitmap, size: int) -> Iterator[list[str]]:
        """The ids that are in this set and not in the other, `size` at a time."""
        found: list[str] = []
        for index, chunk in sorted(self._chunks.items()):
            # Usually there are none, which comparing numbers shows immediately.
            difference = int.from_bytes(chunk) & ~int.from_bytes(other._chunks.get(index, b""))
            for place, bits in enumerate(difference.to_bytes(len(chunk)) if difference else ()):
                left = bits
                while left:
                    low = left & -left
                    found.append(str((index << _CHUNK) + 8 * place + low.bit_length() - 1))
                    left -= low
                    if len(found) == size:
                        yield found
                        found = []
        if found:
            yield found

    def __contains__(self, number: int) -> bool:
        chunk = self._chunks.get(number >> _CHUNK)
        return chunk is not None and bool(chunk[(number & _PLACES) >> 3] & (1 << (number & 7)))

    def count(self) -> int:
        """The number of ids in it."""
        return sum(int.from_bytes(chunk).bit_count() for chunk in self._chunks.values())
