"""Retention of timelines: items read some days ago, old unread ones, and those over the limit.

What leaves is remembered in the channel's `gone`, so it never comes back. The item itself belongs to
the post store, which deletes it when no timeline refers to it. Every step asks again inside Redis, in batches: any
number of processes may clean up at the same time, and whatever a reader does meanwhile holds.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import structlog

from microsub.errors import NotFound
from microsub.identity.store.accounts import Accounts, User
from microsub.kit.periodic import PACE, RoundTiming, for_ever
from microsub.model.reader import Reason
from microsub.model.settings import SettingsOf
from microsub.redis.protocol import Redis
from microsub.redis.replies import text
from microsub.timelines.following import followings
from microsub.timelines.store.channels import Channels
from microsub.timelines.store.remove import (
    Leaving,
    OldUnread,
    Stock,
    expire_read,
    forget_left,
    left_before,
    left_count,
    old_unread,
    stock_of,
    take_out,
    trim,
)
from microsub.timelines.store.timelinekeys import ItemLookup

DAY = 86400.0
RESTORABLE = 30 * DAY
"""Seconds that a disabled user or a removed channel can be restored, and that the leaving of a vanished item is
remembered at least.
"""

_log = structlog.get_logger(__name__)


Declared = Callable[[], Awaitable[Collection[str] | None]]


@dataclass(frozen=True, slots=True)
class ChannelCleanup:
    """What leaves one channel, as numbers of items."""

    user: str
    uid: str
    read: int = 0
    unread: int = 0
    over_limit: int = 0
    deleted: bool = False

    @property
    def total(self) -> int:
        """How many items leave the timeline."""
        return self.read + self.unread + self.over_limit


@dataclass(frozen=True, slots=True)
class RetentionReport:
    """What retention removed, or (`dry_run`) would remove: per channel, and users."""

    dry_run: bool
    channels: tuple[ChannelCleanup, ...]
    users: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        totals = {name: sum(getattr(one, name) for one in self.channels) for name in ("read", "unread", "over_limit")}
        return {
            "dry_run": self.dry_run,
            **totals,
            "channels": [asdict(one) for one in self.channels],
            "users": [*self.users],
        }

    def as_text(self) -> str:
        """For people: one line per channel, and the sum."""
        would = "would leave" if self.dry_run else "left"
        lines = [
            f"{one.user}/{one.uid}: "
            + (
                "removed more than 30 days ago, deleted"
                if one.deleted
                else f"{one.read} read, {one.unread} old unread, {one.over_limit} over the limit"
            )
            for one in self.channels
        ]
        lines += [f"{user}: disabled more than 30 days ago, deleted" for user in self.users]
        return "\n".join([*lines, f"{sum(one.total for one in self.channels)} items {would} their timelines"])


class Retention:
    """Retention in all users' timelines.

    `settings` gives what a channel keeps; times are Unix seconds. `declared` names the users who are to stay though
    they are disabled, because they stand in a backend.json that isn't applied yet; None where nobody knows, and then no
    user is deleted.
    """

    def __init__(
        self,
        redis: Redis,
        accounts: Accounts,
        channels: Channels,
        items: ItemLookup,
        settings: SettingsOf,
        declared: Declared,
    ) -> None:
        self._accounts = accounts
        self._channels = channels
        self._redis = redis
        self._items = items
        self._settings = settings
        self._declared = declared

    async def plan(self, now: float) -> RetentionReport:
        """What `run` would remove now."""
        return await self.run(now, dry_run=True)

    async def run(self, now: float, dry_run: bool = False) -> RetentionReport:
        """Clean up all timelines once, or only say what would leave."""
        report: list[ChannelCleanup] = []
        async for user, uid, subscriptions in followings(self._accounts, self._channels):
            times = {one.feed: one.followed_at for one in subscriptions}
            # A channel that is deleted meanwhile needs no cleanup.
            with contextlib.suppress(NotFound):
                report.append(await self._channel(user.name, uid, times, now, dry_run))
        for user in await self._accounts.users():
            for uid, removed_at in (await self._channels.removed(user.name)).items():
                due = removed_at <= now - RESTORABLE
                if due and (dry_run or await self._channels.delete_removed(user.name, uid)):
                    report.append(ChannelCleanup(user.name, uid, deleted=True))
        users = await self._departed(now, dry_run)
        return RetentionReport(dry_run, tuple(one for one in report if one.total or one.deleted), users)

    async def run_for_ever(self, pace: RoundTiming = PACE) -> None:
        """Clean up again and again, until cancelled."""

        async def one_round(now: float) -> None:
            report = await self.run(now)
            await self.forget_vanished(now, pace.chance())
            if report.channels:
                _log.info("cleaned_up", items=sum(one.total for one in report.channels))

        await for_ever(one_round, "cleanup", pace)

    async def _departed(self, now: float, dry_run: bool) -> tuple[str, ...]:
        """Delete the users whose time to be restored is over; their names."""
        overdue = [user for user in await self._accounts.users() if is_overdue(user, now)]
        declared = await self._declared() if overdue else ()
        if declared is None:
            return ()
        gone = []
        for user in overdue:
            if user.name not in declared and (dry_run or await self._accounts.delete_disabled(user)):
                gone.append(user.name)
                if not dry_run:
                    _log.info("user_deleted", user=user.name, disabled=user.disabled)
        return tuple(gone)

    async def _channel(
        self, user: str, uid: str, followed: Mapping[str, float], now: float, dry_run: bool
    ) -> ChannelCleanup:
        limits = await self._settings(user, uid)
        read_until = now - limits.keep_read_days * DAY if limits.keep_read_days else float("-inf")
        stock = await stock_of(self._redis, user, uid, read_until)
        cleanup = ChannelCleanup(user, uid)
        if limits.keep_read_days:
            due = stock.posts_read + stock.hidden_read
            left = due if dry_run or not due else await expire_read(self._redis, user, uid, read_until, now)
            cleanup = replace(cleanup, read=left)
        shown = hidden = 0
        if limits.keep_unread_days:
            shown = await self._old_unread(user, uid, followed, limits.keep_unread_days, now, False, dry_run)
            hidden = await self._old_unread(user, uid, followed, limits.keep_unread_days, now, True, dry_run)
            cleanup = replace(cleanup, unread=shown + hidden)
        if limits.max_items:
            over = _over(stock, shown, hidden, limits.max_items)
            left = over if dry_run or not over else await trim(self._redis, user, uid, limits.max_items, now)
            cleanup = replace(cleanup, over_limit=left)
        return cleanup

    async def _old_unread(
        self, user: str, uid: str, followed: Mapping[str, float], days: float, now: float, hidden: bool, dry_run: bool
    ) -> int:
        """Take out unread items that are old in every respect; an old post found lately stays."""
        until = now - days * DAY
        count = skip = 0
        while (batch := await old_unread(self._redis, user, uid, until, skip, hidden)).size:
            ids = [item.id for item in batch.items]
            rows = await self._items.fields(ids, ["feed", "discovered"])
            due = old_in_every_respect(batch.items, rows, followed, until)
            if due and not dry_run:
                how = Leaving(Reason.UNREAD_EXPIRED, only_unread=True)
                left = len(await take_out(self._redis, user, uid, due, how, now))
                count += left
                skip += batch.size - left
            else:
                count += len(due)
                skip += batch.size
        return count

    async def forget_vanished(self, now: float, chance: float) -> int:
        """Forget that items left which don't exist any more and can't return; how many.

        Looks at one batch per channel, at an offset that `chance` (0 to 1) chooses, so that it costs little and reaches
        all in time. What left within the last 30 days is kept in any case.
        """
        until = now - RESTORABLE
        count = 0
        for user in await self._accounts.users():
            for channel in await self._channels.list(user.name):
                old = await left_count(self._redis, user.name, channel.uid, until)
                if not old:
                    continue
                ids = await left_before(self._redis, user.name, channel.uid, until, int(chance * old))
                rows = await self._items.fields(ids, ["score"])
                vanished = [item for item, (score,) in zip(ids, rows, strict=True) if score is None]
                count += await forget_left(self._redis, user.name, channel.uid, vanished)
        return count


def is_overdue(user: User, now: float) -> bool:
    """Whether the user has been disabled for 30 days, by times that can be right.

    A clock that was wrong may have disabled them long before they were made, or at no time at all.
    """
    disabled = user.disabled
    return disabled is not None and 0 < user.created <= disabled <= now - RESTORABLE


def old_in_every_respect(
    items: Iterable[OldUnread],
    rows: Iterable[Sequence[bytes | None]],
    followed: Mapping[str, float],
    until: float,
) -> list[str]:
    """The items that were published, discovered and their feed followed at `until` or before.

    `rows` holds feed id and time of discovery of each item, None where it doesn't exist any more; `followed` the time
    of following by feed id.
    """
    due = []
    for item, (feed, discovered) in zip(items, rows, strict=True):
        since = followed.get(text(feed), 0.0) if feed else 0.0
        if max(item.published, float(discovered or 0), since) <= until:
            due.append(item.id)
    return due


def _over(stock: Stock, unread_posts: int, unread_hidden: int, limit: int) -> int:
    """How many items are over the limit when what is due by age has left."""
    posts = stock.posts - stock.posts_read - unread_posts
    hidden = stock.hidden - stock.hidden_read - unread_hidden
    return max(0, posts - limit) + max(0, hidden - limit)
