"""Repair of follows: the channels' lists are authoritative; the feeds' lists and the schedule are derived.

They are in different slots of Redis, so no script changes them together, and a crash or a race of two requests can
leave them inconsistent: a feed that is followed but never polled, or polled without followers. The repair makes them
agree: for a user soon after a change of their follows was begun, and for everything once a day.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

import structlog

from microsub.accounts import Accounts, User
from microsub.base.errors import NotFound
from microsub.base.periodic import PACE, RoundTiming, run_periodically
from microsub.feeds import Feeds, Schedule
from microsub.model.reader import ChannelKey, Subscription
from microsub.redis.protocol import Redis
from microsub.redis.scripts import batches
from microsub.timelines import UNDER_WAY, Channels, Following, SignedFeeds, unsubscribe
from microsub.work import calendar_of

_AT_ONCE = 50

BETWEEN_VISITS = 60.0
"""Seconds between two looks for users whose follows are due."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RepairedFollows:
    """The repairs of a round: missing followers in feeds' lists, wrong followers, feeds that weren't scheduled, and
    feeds that were polled and planned while a clock was ahead.
    """

    missing: int = 0
    surplus: int = 0
    unscheduled: int = 0
    ahead: int = 0


@dataclass(eq=False, repr=False)
class FollowRepair:
    """Makes followers and schedule agree with the channels' lists.

    Any number of processes may do it; it is idempotent.
    """

    redis: Redis
    accounts: Accounts
    channels: Channels
    feeds: Feeds
    schedule: Schedule
    following: Following
    signed: SignedFeeds

    async def run(self, now: float) -> RepairedFollows:
        """Check everything once. Apparent errors are checked again before they are corrected."""
        users = [user for user in await self.accounts.users() if user.disabled is None]
        for user in users:
            await self._finish_moves(user, now)
            await self.signed.prune(user.name, now)
        truth = await self._truth(users)
        missing = surplus = 0
        for batch in batches([*{*truth, *await self.feeds.all_ids()}], _AT_ONCE):
            found = await self._bring_together(batch, truth, now)
            missing, surplus = missing + found[0], surplus + found[1]
        ahead = await self.schedule.set_right(now)
        return RepairedFollows(missing, surplus, await self._schedule_again(truth, now), ahead)

    async def run_for(self, name: str, now: float) -> RepairedFollows | None:
        """Repair one user's follows: interrupted changes are finished; a disabled user follows nothing.

        None if a move of theirs may be in progress.
        """
        user = await self.accounts.user(name)
        if user is None:
            return RepairedFollows()
        if user.disabled is not None:
            return RepairedFollows(surplus=await self._drop_all(user, now))
        if any(now - UNDER_WAY < move.begun <= now for move in user.moves):
            return None
        await self._finish_moves(user, now)
        truth = await self._truth([user])
        missing = surplus = 0
        for batch in batches([*truth], _AT_ONCE):
            found = await self._bring_together(batch, truth, now, name)
            missing, surplus = missing + found[0], surplus + found[1]
        return RepairedFollows(missing, surplus, await self._schedule_again(truth, now))

    async def run_forever(self, pace: RoundTiming = PACE) -> None:
        """Repeatedly finish interrupted changes, until cancelled.

        Users see half of a move, so it waits only for minutes.
        """
        await run_periodically(self._finish_due, "follows", pace, BETWEEN_VISITS)

    async def _finish_due(self, now: float) -> None:
        async def one(user: str) -> float | None:
            repaired = await self.run_for(user, now)
            if repaired is None:
                return now + UNDER_WAY
            self._log(repaired)
            return None

        await calendar_of(self.redis, "follows").visit(now, one)

    async def run_daily(self, now: float) -> None:
        """Run once, and log the repairs."""
        self._log(await self.run(now))

    def _log(self, repaired: RepairedFollows) -> None:
        if repaired != RepairedFollows():
            _log.warning("subscriptions_repaired", **asdict(repaired))

    async def _finish_moves(self, user: User, now: float) -> None:
        """Finish interrupted moves of feeds between channels.

        Before a new channel is filled from the store, so that items keep the state that they have in the former one.
        """
        if user.moves:
            await self.following.finish_moves(user.name, user.moves, now)

    async def _truth(self, users: Sequence[User]) -> dict[str, dict[ChannelKey, Subscription]]:
        """The subscriptions that each feed should serve, by feed and place."""
        truth: defaultdict[str, dict[ChannelKey, Subscription]] = defaultdict(dict)
        for user in users:
            for uid, subscriptions in (await self.channels.all_subscriptions(user.name)).items():
                for one in subscriptions:
                    truth[one.feed][user.name, uid] = one
        return truth

    async def _bring_together(
        self, feeds: Sequence[str], truth: Mapping[str, Mapping[ChannelKey, Subscription]], now: float, only: str = ""
    ) -> tuple[int, int]:
        """Add missing followers of feeds and remove wrong ones, of `only` one user or of all."""
        listed = await asyncio.gather(*(self.feeds.subscribers(feed_id) for feed_id in feeds))
        missing = surplus = 0
        for feed_id, everybody in zip(feeds, listed, strict=True):
            wanted = truth.get(feed_id, {})
            places = {place for place in everybody if only in {"", place[0]}}
            for place in wanted.keys() - places:
                missing += await self._follow_again(place, wanted[place], now)
            for place in places - wanted.keys():
                surplus += await self._drop(place, feed_id)
        return missing, surplus

    async def _drop_all(self, user: User, now: float) -> int:
        """Remove a disabled user from all followers: a follow in progress may have been added after the removal."""
        surplus = 0
        for batch in batches([*await self._truth([user])], _AT_ONCE):
            surplus += (await self._bring_together(batch, {}, now, user.name))[1]
        return surplus

    async def _follow_again(self, place: ChannelKey, subscription: Subscription, now: float) -> bool:
        """Subscribe, and fill in posts that arrived in the meantime."""
        user, uid = place
        if place in await self.feeds.subscribers(subscription.feed):
            return False
        if not await self.channels.follows(user, uid, subscription.feed):
            return False
        await self.feeds.subscribe(subscription.feed, user, uid)
        if await self.feeds.find(subscription.url) is None:
            # The address was lost: it leads to this feed again, not to a second, new one.
            await self.feeds.rename(subscription.feed, subscription.url)
        # If the feed has taken over another one's followers, their address may still belong to that feed.
        if await self.feeds.find(subscription.url) in {None, subscription.feed}:
            with contextlib.suppress(NotFound):
                await self.following.follow_again(user, uid, subscription, now)
        return True

    async def _drop(self, place: ChannelKey, feed_id: str) -> bool:
        user, uid = place
        if await self.channels.follows(user, uid, feed_id):
            return False
        await unsubscribe(self.channels, self.feeds, user, uid, feed_id)
        return True

    async def _schedule_again(self, truth: Iterable[str], now: float) -> int:
        count = 0
        for batch in batches([*truth], _AT_ONCE):
            records = [one for one in (await self.feeds.get_many(batch)).values() if not one.gone]
            held = await self.schedule.holds([(one.id, one.poll_host) for one in records])
            for record, is_held in zip(records, held, strict=True):
                if not is_held and await self.feeds.subscribers(record.id):
                    await self.schedule.add(record.id, record.poll_host, record.due(now))
                    count += 1
        return count
