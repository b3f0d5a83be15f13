"""Who follows what is kept twice: the channels' own lists are the truth, the feeds' lists and the schedule are derived.

They lie in different slots of Redis, so no script changes them together, and a crash or an unlucky meeting of two
requests can leave them apart: a feed that is followed and never asked, or asked for nobody. This brings them together.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace

import structlog

from microsub.errors import NotFound
from microsub.feeds.store.queue import Schedule
from microsub.feeds.store.record import Feeds
from microsub.formats.entry_id import host_of
from microsub.identity.store.accounts import Accounts
from microsub.kit.periodic import PACE, RoundTiming, for_ever
from microsub.model.reader import Subscription
from microsub.timelines.following import Following, followings, unsubscribe
from microsub.timelines.store.channels import Channels

_AT_ONCE = 50

BETWEEN_MOVES = 60.0
_UNDER_WAY = 30.0

Place = tuple[str, str]
"""User and channel uid."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RepairedFollows:
    """What a round put right: followers that feeds didn't know, that they knew in vain, feeds that nobody would ask,
    feeds that were polled and planned while a clock was ahead.
    """

    missing: int = 0
    surplus: int = 0
    unscheduled: int = 0
    ahead: int = 0


class FollowRepair:
    """Brings followers and schedule to what the channels say. Any number of processes may do it; it repeats well."""

    def __init__(
        self, accounts: Accounts, channels: Channels, feeds: Feeds, schedule: Schedule, following: Following
    ) -> None:
        self._accounts = accounts
        self._channels = channels
        self._feeds = feeds
        self._schedule = schedule
        self._following = following

    async def run(self, now: float) -> RepairedFollows:
        """Look at everything once. What looks wrong is looked at again before it is changed."""
        # Before the new channel is filled from the store: items keep the state that they have in the former one.
        await self.finish_moves(now)
        truth = await self._truth()
        missing = surplus = 0
        for batch in _batches([*{*truth, *await self._feeds.all_ids()}]):
            listed = await asyncio.gather(*(self._feeds.subscribers(feed_id) for feed_id in batch))
            for feed_id, places in zip(batch, listed, strict=True):
                wanted = truth.get(feed_id, {})
                for place in wanted.keys() - set(places):
                    missing += await self._follow_again(place, wanted[place], now)
                for place in set(places) - wanted.keys():
                    surplus += await self._drop(place, feed_id)
        return RepairedFollows(missing, surplus, *await self._schedule_again(truth, now))

    async def finish_moves(self, now: float, begun_before: float = math.inf) -> None:
        """Finish moves of feeds between channels that broke off, or only those that were begun before a time."""
        for user in await self._accounts.users():
            moves = [move for move in user.moves if move.begun < begun_before]
            if moves and user.disabled is None:
                await self._following.finish_moves(user.name, moves, now)

    async def finish_moves_for_ever(self, pace: RoundTiming = PACE) -> None:
        """Finish moves again and again, until cancelled: a reader sees half of a move, so it doesn't wait for a round
        of all upkeep. Those of the last half minute are left to who began them.
        """

        async def one_round(now: float) -> None:
            await self.finish_moves(now, now - _UNDER_WAY)

        await for_ever(one_round, "moves", replace(pace, between=BETWEEN_MOVES))

    async def run_for_ever(self, pace: RoundTiming = PACE) -> None:
        """Repair in rounds, until cancelled."""

        async def one_round(now: float) -> None:
            repaired = await self.run(now)
            if repaired != RepairedFollows():
                _log.warning("subscriptions_repaired", **asdict(repaired))

        await for_ever(one_round, "follow_repair", pace)

    async def _truth(self) -> dict[str, dict[Place, Subscription]]:
        """Who is to get what, by feed."""
        truth: defaultdict[str, dict[Place, Subscription]] = defaultdict(dict)
        async for user, uid, subscriptions in followings(self._accounts, self._channels):
            if user.disabled is None:
                for one in subscriptions:
                    truth[one.feed][user.name, uid] = one
        return truth

    async def _follow_again(self, place: Place, subscription: Subscription, now: float) -> bool:
        """Subscribe, and fill in what came meanwhile."""
        user, uid = place
        if place in await self._feeds.subscribers(subscription.feed):
            return False
        if not await self._channels.follows(user, uid, subscription.feed):
            return False
        await self._feeds.subscribe(subscription.feed, user, uid)
        if await self._feeds.find(subscription.url) is None:
            # The address was lost: it leads to this feed again, not to a new one beside it.
            await self._feeds.rename(subscription.feed, subscription.url)
        # Where the feed has taken over another one's followers, their address may still be that one's.
        if await self._feeds.find(subscription.url) in {None, subscription.feed}:
            with contextlib.suppress(NotFound):
                await self._following.follow(user, uid, subscription.url, now, subscription.name)
        return True

    async def _drop(self, place: Place, feed_id: str) -> bool:
        user, uid = place
        if await self._channels.follows(user, uid, feed_id):
            return False
        await unsubscribe(self._channels, self._feeds, user, uid, feed_id)
        return True

    async def _schedule_again(self, truth: Iterable[str], now: float) -> tuple[int, int]:
        count, ahead = 0, await self._schedule.set_right(now)
        for batch in _batches([*truth]):
            records = [one for one in (await self._feeds.get_many(batch)).values() if not one.gone]
            held = await self._schedule.holds([(one.id, host_of(one.url)) for one in records])
            for record, is_held in zip(records, held, strict=True):
                if not is_held and await self._feeds.subscribers(record.id):
                    await self._schedule.add(record.id, host_of(record.url), record.next_poll or now)
                    count += 1
        return count, ahead


def _batches(ids: Sequence[str]) -> Iterable[Sequence[str]]:
    for start in range(0, len(ids), _AT_ONCE):
        yield ids[start : start + _AT_ONCE]
