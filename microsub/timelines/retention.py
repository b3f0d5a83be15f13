"""Retention of timelines: removes items read long ago, old unread ones, and those over the limit.

The channel's `gone` remembers them, so they never come back. The item itself belongs to the post store, which deletes
it once no timeline refers to it. Every step checks its conditions again inside Redis, in batches, so several processes
and requests can work at the same time.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial

import structlog

from microsub.accounts import Accounts, User
from microsub.base.clock import DAY
from microsub.base.errors import NotFound
from microsub.base.periodic import PACE, RoundTiming, run_periodically
from microsub.model.reader import GLOBAL, Reason
from microsub.model.settings import ChannelSettings, SettingsOf
from microsub.posts import Items
from microsub.redis.protocol import Redis
from microsub.redis.replies import text
from microsub.redis.scripts import batches
from microsub.timelines.channels.store import Channels
from microsub.timelines.gone import forget, id_of_day, note_day, some_absences
from microsub.timelines.remove import (
    Leaving,
    Stock,
    expire_read,
    old_unread,
    stock_of,
    take_out,
    trim,
)
from microsub.timelines.rules import ends_in, forget_ends, tidy_apart
from microsub.work import calendar_of

SOONEST, LATEST = DAY / 4, DAY
"""Seconds between two visits to a channel: when its next item is due, but within these bounds. The upper bound is for
items that become due in other ways: by a lower limit, or added late.
"""

RESTORABLE = 30 * DAY
"""Seconds for which disabled users and removed channels can be restored, and items that vanish are remembered,
counted from their arrival at the server.
"""

BETWEEN_VISITS = 300.0
"""Seconds between two checks for channels that are due."""

FORGOTTEN_AT_ONCE = 50
"""Maximum number of remembered ids that a visit examines."""

_log = structlog.get_logger(__name__)


Declared = Callable[[], Awaitable[Collection[str] | None]]


@dataclass(frozen=True, slots=True)
class ChannelCleanup:
    """The numbers of items that leave one channel."""

    user: str
    uid: str
    read: int = 0
    unread: int = 0
    over_limit: int = 0
    deleted: bool = False

    @property
    def total(self) -> int:
        """The number of items that leave the timeline."""
        return self.read + self.unread + self.over_limit


@dataclass(frozen=True, slots=True)
class RetentionReport:
    """The items that retention removed, or (`dry_run`) would remove, by channel; and users."""

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
        """The report for people: one line per channel, and the sum."""
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


@dataclass(frozen=True, slots=True)
class DaysUnread:
    """How many days unread items of a channel are kept, those of the `own` feeds longer or shorter; 0: forever."""

    channel: float
    own: Mapping[str, float] = field(default_factory=dict)

    @property
    def fewest(self) -> float | None:
        """The fewest days that end; None if all items are kept forever."""
        return min((days for days in (self.channel, *self.own.values()) if days), default=None)

    def until(self, feed: str, now: float) -> float:
        """The Unix time; the feed's items that are as old, or older, leave."""
        days = self.own.get(feed, self.channel)
        return now - days * DAY if days else -math.inf


class Retention:
    """Retention in all users' timelines.

    `settings` gives the limits of a channel; times are Unix seconds. `declared` names disabled users who must not be
    deleted, because they are in a backend.json that isn't applied yet; while it is None, no user is deleted. Channels
    are visited when their next item is due (`work.calendar`).
    """

    def __init__(
        self,
        redis: Redis,
        accounts: Accounts,
        channels: Channels,
        items: Items,
        settings: SettingsOf,
        declared: Declared,
    ) -> None:
        self._accounts = accounts
        self._channels = channels
        self._redis = redis
        self._items = items
        self._settings = settings
        self._declared = declared
        self._due = calendar_of(redis, "retention")

    async def run(self, now: float, dry_run: bool = False) -> RetentionReport:
        """Clean up all timelines once, or only report what would leave."""
        report: list[ChannelCleanup] = []
        for batch in batches(await self._accounts.users()):
            uids = await self._channels.uids([user.name for user in batch])
            for user, uid in ((user.name, uid) for user, listed in zip(batch, uids, strict=True) for uid in listed):
                limits = await self._settings(user, uid)
                stock = await self._stock(user, uid, limits, now)
                report.append(await self._channel(user, uid, limits, stock, now, dry_run=dry_run))
        removed, users = await self._removed(now, dry_run)
        report += removed
        return RetentionReport(dry_run, tuple(one for one in report if one.total or one.deleted), users)

    async def run_forever(self, pace: RoundTiming = PACE) -> None:
        """Clean up the channels that are due, repeatedly, until cancelled."""
        await run_periodically(self.clean_due, "cleanup", pace, BETWEEN_VISITS)

    async def clean_due(self, now: float) -> int:
        """Clean up the channels that are due; returns the number of items that left."""
        count = 0

        async def one(member: str) -> float | None:
            nonlocal count
            cleanup, again = await self.visit(member, now)
            count += cleanup.total
            return again

        await self._due.visit(now, one)
        if count:
            _log.info("cleaned_up", items=count)
        return count

    async def visit(self, member: str, now: float) -> tuple[ChannelCleanup, float | None]:
        """Clean up one channel: the result, and when it is due again (no such channel: None).

        Also forgets a few remembered items that don't exist any more.
        """
        user, _, uid = member.partition(" ")
        limits = await self._settings(user, uid)
        stock = await self._stock(user, uid, limits, now)
        cleanup = await self._channel(user, uid, limits, stock, now, dry_run=False)
        if cleanup.total:
            stock = await self._stock(user, uid, limits, now)
        if stock is None:
            return cleanup, None
        await tidy_apart(self._redis, user, uid)
        await self._forget_vanished(user, uid, now)
        days = (await self._days_unread(user, uid, limits)).fewest
        soonest = next_expiry(stock, replace(limits, keep_unread_days=days or 0))
        return cleanup, min(max(soonest, now + SOONEST), now + LATEST)

    async def look_for_channels(self, now: float) -> None:
        """Plan a visit to channels that have none planned; delete what was removed 30 days ago.

        To be called once a day. The visits are spread over hours, so that a server's channels aren't all due at once.
        """
        for batch in batches(await self._accounts.users()):
            uids = await self._channels.uids([user.name for user in batch])
            members = [f"{user.name} {uid}" for user, listed in zip(batch, uids, strict=True) for uid in listed]
            await self._due.note({one: now + at * SOONEST / len(members) for at, one in enumerate(members)}, "missing")
        await note_day(self._redis, now, RESTORABLE)
        await self._removed(now, dry_run=False)

    async def _removed(self, now: float, dry_run: bool) -> tuple[list[ChannelCleanup], tuple[str, ...]]:
        """Delete the channels and users that can't be restored any more."""
        report = []
        for user in await self._accounts.users():
            for uid, removed_at in (await self._channels.removed(user.name)).items():
                due = removed_at <= now - RESTORABLE
                if due and (dry_run or await self._delete_channel(user.name, uid)):
                    report.append(ChannelCleanup(user.name, uid, deleted=True))
        return report, await self._departed(now, dry_run)

    async def _departed(self, now: float, dry_run: bool) -> tuple[str, ...]:
        """Delete the users that can't be restored any more; returns their names."""
        overdue = [user for user in await self._accounts.users() if is_overdue(user, now)]
        declared = await self._declared() if overdue else ()
        if declared is None:
            return ()
        gone = []
        for user in overdue:
            if user.name not in declared and (dry_run or await self._delete_user(user)):
                gone.append(user.name)
                if not dry_run:
                    _log.info("user_deleted", user=user.name, disabled=user.disabled)
        return tuple(gone)

    async def _delete_channel(self, user: str, uid: str) -> bool:
        ends = await ends_in(self._redis, user, uid)
        is_deleted = await self._channels.delete_removed(user, uid)
        if is_deleted:
            await forget_ends(self._redis, ends)
        return is_deleted

    async def _delete_user(self, user: User) -> bool:
        # The ends of mutes first: without the mutes, nothing would lead to them after a crash.
        (listed,) = await self._channels.uids([user.name])
        for uid in (GLOBAL, *listed, *await self._channels.removed(user.name)):
            await forget_ends(self._redis, await ends_in(self._redis, user.name, uid))
        return await self._accounts.delete_disabled(user)

    async def _stock(self, user: str, uid: str, limits: ChannelSettings, now: float) -> Stock | None:
        read_until = now - limits.keep_read_days * DAY if limits.keep_read_days else float("-inf")
        return await stock_of(self._redis, user, uid, read_until)

    async def _channel(
        self, user: str, uid: str, limits: ChannelSettings, stock: Stock | None, now: float, *, dry_run: bool
    ) -> ChannelCleanup:
        cleanup = ChannelCleanup(user, uid)
        if stock is None:
            return cleanup
        if limits.keep_read_days and (due := stock.posts_read + stock.hidden_read):
            read_until = now - limits.keep_read_days * DAY
            left = due if dry_run else await expire_read(self._redis, user, uid, read_until, now)
            cleanup = replace(cleanup, read=left)
        shown = hidden = 0
        kept = await self._days_unread(user, uid, limits)
        if (days := kept.fewest) is not None:
            until = now - days * DAY
            if stock.oldest_unread <= until:
                shown = await self._old_unread(user, uid, kept, now, False, dry_run)
            if stock.oldest_hidden <= until:
                hidden = await self._old_unread(user, uid, kept, now, True, dry_run)
            cleanup = replace(cleanup, unread=shown + hidden)
        if limits.max_items and (over := _over(stock, shown, hidden, limits.max_items)):
            left = over if dry_run else await trim(self._redis, user, uid, limits.max_items, now)
            cleanup = replace(cleanup, over_limit=left)
        return cleanup

    async def _days_unread(self, user: str, uid: str, limits: ChannelSettings) -> DaysUnread:
        with contextlib.suppress(NotFound):
            follows = await self._channels.subscriptions(user, uid)
            own = {one.feed: days for one in follows if (days := one.settings.keep_unread_days) is not None}
            return DaysUnread(limits.keep_unread_days or 0, own)
        return DaysUnread(limits.keep_unread_days or 0)

    async def _old_unread(self, user: str, uid: str, kept: DaysUnread, now: float, hidden: bool, dry_run: bool) -> int:
        """Remove unread items that are old in every respect; an old post found recently stays."""
        count = skip = 0
        until = now - (kept.fewest or 0) * DAY
        followed: dict[str, float] | None = None
        # A channel that has been deleted needs no cleanup.
        with contextlib.suppress(NotFound):
            while True:
                items, size = await old_unread(self._redis, user, uid, until, skip, hidden)
                if not size:
                    break
                rows = await self._items.fields([item for item, _ in items], ["feed", "discovered"])
                if followed is None:
                    subscriptions = await self._channels.subscriptions(user, uid)
                    followed = {one.feed: one.followed_at for one in subscriptions}
                due = old_in_every_respect(items, rows, followed, partial(kept.until, now=now))
                if due and not dry_run:
                    how = Leaving(Reason.UNREAD_EXPIRED, only_unread=True)
                    left = len(await take_out(self._redis, user, uid, due, how, now))
                    count += left
                    skip += size - left
                else:
                    count += len(due)
                    skip += size
        return count

    async def _forget_vanished(self, user: str, uid: str, now: float) -> None:
        """Forget remembered items that don't exist any more and can't return.

        Examines a few at a time, which is cheap and reaches all of them eventually. Items of the last 30 days are kept,
        and ids that an import assigned within them.
        """
        last = await id_of_day(self._redis, now - RESTORABLE)
        found = await some_absences(self._redis, user, uid, FORGOTTEN_AT_ONCE) if last else []
        left = [one for one in found if int(one.id) <= last]
        rows = await self._items.fields([one.id for one in left], ["score"])
        await forget(self._redis, user, uid, [one for one, (score,) in zip(left, rows, strict=True) if score is None])


def next_expiry(stock: Stock, limits: ChannelSettings) -> float:
    """The Unix time at which the first item of a channel may be due; infinity: never.

    An unread item is due later if it was found, or its feed followed, long after its publication.
    """
    published = min(stock.oldest_unread, stock.oldest_hidden)
    return min(
        published + limits.keep_unread_days * DAY if limits.keep_unread_days else math.inf,
        stock.oldest_read + limits.keep_read_days * DAY if limits.keep_read_days else math.inf,
    )


def is_overdue(user: User, now: float) -> bool:
    """Whether the user has been disabled for 30 days, by plausible times.

    A wrong clock may have recorded 0, or a time before the user was created.
    """
    disabled = user.disabled
    return disabled is not None and 0 < user.created <= disabled <= now - RESTORABLE


def old_in_every_respect(
    items: Iterable[tuple[str, float]],
    rows: Iterable[Sequence[bytes | None]],
    followed: Mapping[str, float],
    until: Callable[[str], float],
) -> list[str]:
    """The items that were published, discovered and their feed followed before a time, which `until` gives by feed.

    `items` are ids and times of publication; `rows` are feed id and time of discovery of each item, None if it doesn't
    exist any more; `followed` maps feed ids to the time of following.
    """
    due = []
    for (item, published), (feed, discovered) in zip(items, rows, strict=True):
        name = text(feed or b"")
        if max(published, float(discovered or 0), followed.get(name, 0.0)) <= until(name):
            due.append(item)
    return due


def _over(stock: Stock, unread_posts: int, unread_hidden: int, limit: int) -> int:
    """The number of items over the limit after those due by age have left."""
    posts = stock.posts - stock.posts_read - unread_posts
    hidden = stock.hidden - stock.hidden_read - unread_hidden
    return max(0, posts - limit) + max(0, hidden - limit)
