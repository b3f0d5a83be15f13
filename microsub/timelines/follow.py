"""Following and unfollowing feeds, and the changes to timelines that come with it.

The channels' own lists are authoritative and are written first; the feeds' lists of followers come after them. So a
repeated request or upkeep completes whatever a crash has interrupted, and every method is idempotent.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from microsub.base.errors import InvalidRequest, NotFound, QuotaReached, StoreUnavailable
from microsub.base.plaintext import on_one_line
from microsub.base.rate_limits import RateLimit
from microsub.base.urls import canonical_feed_url, host_of, mask_credentials, sign_in_of
from microsub.configuration.model import Quotas
from microsub.feeds import FeedRecord, Feeds, InternalAddress, Schedule
from microsub.model.reader import GLOBAL, FeedMove, Subscription
from microsub.model.settings import NO_SETTINGS, FeedView, FollowSettings, SettingsOf
from microsub.posts import ARTICLES, Items, articles_wanted
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.replies import text
from microsub.redis.scan import members
from microsub.timelines.add import Adder
from microsub.timelines.channels.follows import refuse_saved
from microsub.timelines.channels.store import Channels
from microsub.timelines.feed_names import feed_name
from microsub.timelines.pages import walk_rows
from microsub.timelines.remove import inherit_left, move_items, take_out_feed
from microsub.timelines.restore import States, bring_back
from microsub.timelines.rules import ends_in, forget_ends, set_apart
from microsub.work import Stream, calendar_of

NEW_FOLLOWS = RateLimit("new follows", "user without a quota of feeds", 10_000, 86_400)
"""Counted in Redis, by day. An unfollowed feed leaves 5 KB for a month, so following and unfollowing without end would
fill the store. Lists of a few thousand feeds are common.
"""

_WALK = 1000
_MOST_ITEMS = 5000
"""Maximum number of items of a feed that fill a timeline, whatever the timeline's own limit."""

TIMES_A_DAY = 3
"""New follows per day (UTC), in multiples of a user's quota of feeds; see `NEW_FOLLOWS`."""

UNDER_WAY = 30.0
"""Seconds after which an unfinished change counts as interrupted; upkeep finishes it then."""

_IN_FLIGHT = 30.0
"""Seconds: posts discovered this recently may have been on their way to a timeline during a move."""


@dataclass(frozen=True, slots=True)
class Followed:
    """A subscription, and the record of its feed, with its health."""

    subscription: Subscription
    record: FeedRecord

    @property
    def name(self) -> str:
        """The feed's name for the user."""
        return feed_name(self.subscription, self.record)

    @property
    def address(self) -> str:
        """The address without passwords; '' for a feed of this server."""
        return "" if self.record.is_internal else mask_credentials(self.subscription.url)


class Following:
    """The subscriptions of users. Times are Unix seconds; a `url` is an absolute http(s) URL, or an internal address.

    Every method raises NotFound for an unknown channel; `follow` and `move` raise InvalidRequest for `saved`.
    """

    def __init__(
        self,
        redis: Redis,
        channels: Channels,
        feeds: Feeds,
        items: Items,
        adder: Adder,
        schedule: Schedule,
        channel_settings: SettingsOf,
    ) -> None:
        self._redis = redis
        self._channels = channels
        self._feeds = feeds
        self._items = items
        self._adder = adder
        self._schedule = schedule
        self._channel_settings = channel_settings
        self._due = calendar_of(redis, "follows")
        self._articles = Stream(redis, "articles")

    async def feeds(self, user: str, uid: str) -> list[Followed]:
        """The feeds of a channel, or (`global`) of all, each once; the oldest subscription first.

        A feed whose master of a cluster is away is listed as one without a record.
        """
        if uid == GLOBAL:
            subscriptions = list((await self._channels.followed_feeds(user)).values())
        else:
            subscriptions = await self._channels.subscriptions(user, uid)
        records = await self._feeds.within_reach(sub.feed for sub in subscriptions)
        return [_followed(sub, records.get(sub.feed)) for sub in subscriptions]

    async def follow(
        self,
        user: str,
        uid: str,
        url: str,
        now: float,
        name: str | None = None,
        *,
        settings: FollowSettings = NO_SETTINGS,
        most: int | None = None,
    ) -> Followed:
        """Follow a feed in a channel, and fill the timeline with the feed's stored posts.

        Doesn't wait for the network: a feed without stored posts is due at once. Following a feed again changes
        nothing. Raises QuotaReached if the user follows `most` feeds (0: any number), or has newly followed
        `new_in_a_day` today; without `most` the admin follows, who isn't limited. Raises InvalidRequest for another
        user's internal feed.

        All items of an internal feed are unread, however old they are.
        """
        refuse_saved(uid)
        if (named := sign_in_of(canonical_feed_url(url))) is not None and named[0] != user:
            raise InvalidRequest("'url' can't be followed: it is signed in as another user")
        own = InternalAddress.of(url)
        if own is not None and own.user != user:
            raise InvalidRequest("'url' can't be followed: it is the internal address of another user")
        await self._channels.get(user, uid)
        if most is not None:
            await self._check_room(user, uid, url, now, most)
        record = await self._feeds.ensure(url, now)
        await self._begin(user, now)
        since = 0.0 if own is not None else None
        begun = (record.id, url, now, on_one_line(name) if name else None)
        is_new = await self._channels.follow(user, uid, *begun, settings=settings, most=most or 0, unread_from=since)
        if is_new and most is not None:
            await self._channels.followed_on(user, now, 1)
        if record.last_success is not None:
            await self._fill(user, uid, record.id, await self._items.newest(record.id, _MOST_ITEMS), now)
        await self.join(user, uid, record, now)
        if is_new and record.last_success is not None and not record.is_internal:
            await self._want_articles(record.id)
        return await self._one(user, uid, record)

    async def follow_again(
        self, user: str, uid: str, ended: Subscription, now: float, *, most: int | None = None
    ) -> Followed:
        """`follow` a feed with the name and the settings of an earlier follow."""
        return await self.follow(user, uid, ended.url, now, ended.name, settings=ended.settings, most=most)

    async def change(
        self,
        user: str,
        uid: str,
        feed_id: str,
        now: float,
        *,
        name: str | None = None,
        settings: FollowSettings | None = None,
        former: FollowSettings | None = None,
    ) -> Subscription | None:
        """Change the user's name for a feed of a channel ('' deletes it), or their settings for it.

        See `Channels.update_subscription`. Returns the follow, or None if there is none.
        """
        resumes = False
        if settings is not None and not settings.paused:
            present = await self._channels.subscription(user, uid, feed_id)
            resumes = present is not None and present.settings.paused and (former is None or former.paused)
        if resumes:
            # Upkeep finishes a follow that its feed doesn't list, so no crash loses what came during the pause.
            await self._begin(user, now)
            await self._feeds.unsubscribe(feed_id, user, uid)
        name = on_one_line(name) if name else name
        changed = await self._channels.update_subscription(
            user, uid, feed_id, name=name, settings=settings, former=former
        )
        if changed is None:
            return None
        if settings is not None:
            await set_apart(self._redis, self._items, user, uid, changed.feed, hides=changed.settings.hide_in_all)
        if resumes:
            await self._fill(user, uid, changed.feed, await self._items.newest(changed.feed, _MOST_ITEMS), now)
            record = await self._feeds.get(changed.feed) or FeedRecord(changed.feed, changed.url)
            await self.join(user, uid, record, now)
        await self._channels.note_change(user, uid, now)
        if settings is not None:
            await self._want_articles(changed.feed)
        return changed

    async def _want_articles(self, feed_id: str) -> None:
        """Have the articles of the feed's posts read, if its followers want them."""
        await self._articles.add_within(ARTICLES, [articles_wanted(feed_id)])

    async def change_address(
        self, user: str, feed_id: str, url: str, now: float, *, most: int | None = None, only: str | None = None
    ) -> FeedRecord:
        """Follow the feed at `url` instead of another one, in all channels that follow that, with name and settings.

        `only` names a channel if the others stay as they are.

        Posts stay, until the same ones of the new feed replace them and keep their read state. Raises NotFound if the
        user doesn't follow the other one, and QuotaReached for a user of at most `most` feeds who has newly followed
        `new_in_a_day` today.
        """
        everywhere = await self._channels.all_subscriptions(user)
        holders = [uid for uid, some in everywhere.items() if any(one.feed == feed_id for one in some)]
        holders = holders if only is None else [uid for uid in holders if uid == only]
        if not holders:
            raise not_followed(url)
        if most is not None:
            if (begun := await self._channels.followed_on(user, now)) >= new_in_a_day(most):
                raise QuotaReached("new follows in a day", begun, new_in_a_day(most))
            await self._channels.followed_on(user, now, 1)
        record = await self._feeds.ensure(url, now)
        if record.id == feed_id:
            return record
        await self._begin(user, now)
        for uid in holders:
            # The follow first: upkeep brings the feeds' lists in line with it.
            if await self._channels.update_subscription(user, uid, feed_id, new_feed=record.id, url=url) is None:
                continue
            if record.last_success is not None:
                await self._fill(user, uid, record.id, await self._items.newest(record.id, _MOST_ITEMS), now)
            await self.join(user, uid, record, now)
            await unsubscribe(self._channels, self._feeds, user, uid, feed_id)
            await self._channels.note_change(user, uid, now)
        await self._want_articles(record.id)
        return record

    async def choose_view(self, user: str, uid: str, feed_id: str, view: FeedView, now: float) -> bool:
        """Let the feed's own page show its posts in that way; returns whether the channel follows it."""
        follow = await self._held(user, uid, feed_id)
        if follow is None:
            return False
        with suppress(NotFound):
            own = replace(follow.settings, view=view)
            await self._channels.update_subscription(user, uid, feed_id, settings=own, former=follow.settings)
            await self._channels.note_change(user, uid, now)
        return True

    async def join(self, user: str, uid: str, record: FeedRecord, now: float) -> None:
        """The second half of `follow`: add the channel to the feed's followers, and have it filled and polled.

        The feed's posts that the channel has already are hidden in *All* if the user has chosen that.

        Does nothing if the follow or the channel has ended meanwhile: nothing else would remove such a follower.
        """
        await self._feeds.subscribe(record.id, user, uid)
        if (follow := await self._held(user, uid, record.id)) is None:
            await unsubscribe(self._channels, self._feeds, user, uid, record.id)
            return
        await self._hide(user, uid, follow)
        # Again: a post stored in the meantime, perhaps by the feed's very first poll, may have missed both lists.
        await self._fill(user, uid, record.id, await self._items.newest(record.id, _MOST_ITEMS), now)
        if not record.gone:
            # Also if only programs write it: its address may have become a feed.
            await self._schedule.add(record.id, host_of(record.url), record.due(now))

    async def _begin(self, user: str, now: float) -> None:
        """Make upkeep check the user's follows later, in case this change is interrupted."""
        await self._due.note({user: now + UNDER_WAY})

    async def _check_room(self, user: str, uid: str, url: str, now: float, most: int) -> None:
        """Raise QuotaReached as the store would, before a feed without followers gets a record."""
        count = await self._channels.count_feeds(user)
        begun = await self._channels.followed_on(user, now)
        is_full, is_over = 0 < most <= count, begun >= new_in_a_day(most)
        if not is_full and not is_over:
            return
        if _named(await self._channels.subscriptions(user, uid), url, await self._feeds.find(url)):
            return
        if is_full:
            raise QuotaReached("feeds", count, most)
        raise QuotaReached("new follows in a day", begun, new_in_a_day(most))

    async def find(self, user: str, uid: str, url: str) -> Subscription:
        """The channel's follow of the feed at `url`. Raises NotFound."""
        known = await self._feeds.find(url)
        if (found := _named(await self._channels.subscriptions(user, uid), url, known)) is None:
            raise not_followed(url)
        return found

    async def unfollow(self, user: str, uid: str, url: str, now: float) -> None:
        """Stop following. Unread items of the feed leave, read ones stay until retention removes them.

        Unfollowing a feed that isn't followed is no error. If a master of a cluster that has the feed or its items is
        away, upkeep finishes the unfollow when it is back.
        """
        while subscription := _named(await self._channels.subscriptions(user, uid), url):
            if await self._leave_now(user, uid, subscription.feed, now):
                return
            # Meanwhile it became another feed's subscription, or another request ended it: look again.
        feed_id = await self._feeds.find(url)
        if feed_id is not None:
            await self._leave_now(user, uid, feed_id, now)

    async def move(
        self, user: str, target: str, url: str, now: float, *, holders: Mapping[str, Subscription] | None = None
    ) -> Followed:
        """Follow a feed only in the channel `target`; its items move too. Raises NotFound if no channel follows it.

        `holders` are the channels that follow it, if the caller knows them: reading all follows takes long.
        """
        refuse_saved(target)
        await self._channels.get(user, target)
        holders = await self.holders(user, url) if holders is None else holders
        if not holders:
            raise not_followed(url)
        held = next(iter(holders.values()))
        await self._begin(user, now)
        for uid in holders:
            if uid != target:
                # The subscription first, so that nothing is added to the former channel after its items were read.
                await self._channels.move_subscription(user, FeedMove(held.feed, uid, target, now))
        # Together with interrupted moves.
        moves = [
            move
            for move in await self._channels.moves(user)
            if move.feed == held.feed and move.source not in {target, move.target}
        ]
        if not await self._channels.follows(user, target, held.feed):
            raise not_followed(url)  # since it was read here, it was unfollowed, or another move took it
        await self._feeds.subscribe(held.feed, user, target)
        await self._carry_over(user, target, moves, now)
        record = await self._feeds.get(held.feed) or await self._feeds.ensure(held.url, now)
        return await self._one(user, target, record)

    async def move_back(
        self, user: str, source: str, held: Sequence[tuple[str, Subscription]], former: States, present: States,
        now: float, *, most: int | None = None,
    ) -> None:  # fmt: skip
        """Take a `move` into the channel `source` back: `held` are the channels that followed the feed before.

        See `bring_back` for the items; without `former`, all come back to the first channel.
        """
        (uid, follow), *others = held
        await self.move(user, uid, follow.url, now, holders={source: follow})
        for other, ended in others:
            await self.follow_again(user, other, ended, now, most=most)
        if not former:
            return
        in_order = {there: former.get(there, {}) for there, _ in held}
        await bring_back(self._redis, self._items, user, in_order, present, now)
        for other, ended in held:
            await self._hide(user, other, ended)

    async def finish_moves(self, user: str, moves: Sequence[FeedMove], now: float) -> None:
        """Finish a user's interrupted moves and unfollows that no request has repeated."""
        further = {(move.feed, move.source): move.target for move in moves}
        for move in moves:
            target, known = move.target, {move.source}
            while (move.feed, target) in further and target not in known:
                known.add(target)
                target = further[move.feed, target]
            if move.source != move.target and await self._channels.follows(user, target, move.feed):
                await self._feeds.subscribe(move.feed, user, target)
                await self._carry_over(user, target, [move], now)
            else:
                # The user has unfollowed it there too, or only there: unfollow as usual, unless it is followed again.
                if not await self._channels.follows(user, move.source, move.feed):
                    await self._leave(user, move.source, move.feed, now)
                await self._channels.moved(user, move)

    async def remove_channel(self, user: str, uid: str, now: float) -> None:
        """Remove a channel so that `restore_channel` can bring it back as it was (`Channels.disable`).

        If a master of a cluster is away, upkeep removes the channel from the followers of the feeds that it has.
        """
        for feed in await self._channels.disable(user, uid, now):
            with suppress(StoreUnavailable):
                await self._feeds.unsubscribe(feed, user, uid)

    async def restore_channel(self, user: str, uid: str, now: float, limits: Quotas | None = None) -> None:
        """Undo `remove_channel`: the channel follows its feeds again, and is filled from the store and by polls.

        Raises QuotaReached if the user would then exceed `limits`.
        """
        with suppress(NotFound):  # it isn't removed (any more)
            await self._channels.restore(user, uid, limits)
        for subscription in await self._channels.subscriptions(user, uid):
            await self.follow_again(user, uid, subscription, now)

    async def holds_only(self, user: str, uid: str, feeds: Collection[str]) -> bool:
        """Whether all posts of a channel, muted ones included, come from these feeds."""
        for key in (keys.posts(user, uid), keys.hidden(user, uid)):
            async for ids in members(self._redis, key):
                rows = await self._items.fields(ids, ["feed"])
                if any(feed is not None and text(feed) not in feeds for (feed,) in rows):
                    return False
        return True

    async def delete_channel(self, user: str, uid: str) -> None:
        """Delete a channel with its timeline and follows. Raises InvalidRequest for one that everybody has.

        The follows are deleted first, because they are authoritative. If it crashes before the feeds' own lists are
        changed, or a master of a cluster that has them is away, upkeep removes the entries left there. The ends of its
        mutes are deleted too; one that can't be reached does nothing when it comes.
        """
        ends = await ends_in(self._redis, user, uid)
        for feed in await self._channels.delete(user, uid):
            with suppress(StoreUnavailable):
                await unsubscribe(self._channels, self._feeds, user, uid, feed)
        with suppress(StoreUnavailable):
            await forget_ends(self._redis, ends)

    async def _carry_over(self, user: str, target: str, moves: Sequence[FeedMove], now: float) -> None:
        """Move a feed's items from channels that no longer follow it into one that does."""
        for move in moves:
            with suppress(NotFound):  # the former channel was deleted, and the items with it
                await self._move_items(user, move.source, target, move.feed, now)
                # Without ending a follow: another move may have brought the feed back meanwhile.
                await self._clear(user, move.source, move.feed, now)
        for move in moves:
            # Items that the user removed from the former channel don't come back in the new one.
            listed = await self._items.newest(move.feed, _MOST_ITEMS)
            await inherit_left(self._redis, user, move.source, target, listed)
            # Posts stored during the move may have been delivered with the old list of followers.
            await self._fill(user, target, move.feed, await self._since(listed[:_WALK], move.begun - _IN_FLIGHT), now)
            if (follow := await self._held(user, target, move.feed)) is not None:
                await self._hide(user, target, follow)
        for move in moves:
            await self._channels.moved(user, move)

    async def _leave_now(self, user: str, uid: str, feed_id: str, now: float) -> bool:
        """`_leave`, finished by upkeep if only the user's own keys can be reached; whether there was a subscription."""
        ended = await self._channels.unfollow(user, uid, feed_id)
        try:
            await self._clear(user, uid, feed_id, now)
        except StoreUnavailable:
            await self._channels.note_unfinished(user, uid, feed_id, now)
            with suppress(StoreUnavailable):  # upkeep also looks once a day
                await self._begin(user, now)
        return ended

    async def _leave(self, user: str, uid: str, feed_id: str, now: float) -> None:
        await self._channels.unfollow(user, uid, feed_id)
        await self._clear(user, uid, feed_id, now)

    async def _clear(self, user: str, uid: str, feed_id: str, now: float) -> None:
        """Remove what a follow that has ended leaves: unread items, and the entry in the feed's list."""
        await take_out_feed(self._redis, self._items, user, uid, feed_id, now)
        await unsubscribe(self._channels, self._feeds, user, uid, feed_id)

    async def _fill(self, user: str, uid: str, feed_id: str, ids: Sequence[str], now: float) -> None:
        if ids:
            await self._adder.fill(user, uid, feed_id, ids, await self._channel_settings(user, uid), now)

    async def _move_items(self, user: str, uid: str, target: str, feed_id: str, now: float) -> None:
        async for rows in walk_rows(self._redis, user, uid):
            await self._move_some(user, target, feed_id, [row.id for row in rows], now)
        # Last, because it finds items that were muted meanwhile.
        async for ids in members(self._redis, keys.hidden(user, uid)):
            await self._move_some(user, target, feed_id, ids, now)

    async def _move_some(self, user: str, target: str, feed_id: str, ids: Sequence[str], now: float) -> None:
        mine = await self._items.in_feed(feed_id, ids)
        if mine:
            mine_in_order = [one for one in ids if one in mine]
            await move_items(self._redis, self._items, user, target, mine_in_order, now, hidden_too=True)

    async def _since(self, ids: Sequence[str], since: float) -> list[str]:
        """The given ids whose posts were discovered since then."""
        times = await self._items.fields(ids, ["discovered"])
        return [item for item, (at,) in zip(ids, times, strict=True) if at is not None and float(at) >= since]

    async def holders(self, user: str, url: str) -> dict[str, Subscription]:
        """The channels that follow the feed at `url`, with their subscriptions."""
        known = await self._feeds.find(url)
        everywhere = await self._channels.all_subscriptions(user)
        found = {uid: sub for uid, subs in everywhere.items() if (sub := _named(subs, url, known))}
        feeds = {sub.feed for sub in found.values()}
        return found if len(feeds) < 2 else {uid: sub for uid, sub in found.items() if sub.feed == known}

    async def _held(self, user: str, uid: str, feed_id: str) -> Subscription | None:
        """The follow of the feed, None without follow or channel; also for a user who is being restored."""
        with suppress(NotFound):
            return await self._channels.subscription(user, uid, feed_id)
        return None

    async def _hide(self, user: str, uid: str, follow: Subscription) -> None:
        """Hide the feed's posts of this channel in *All*, if the user has chosen that."""
        if follow.settings.hide_in_all:
            await set_apart(self._redis, self._items, user, uid, follow.feed, hides=True)

    async def _one(self, user: str, uid: str, record: FeedRecord) -> Followed:
        found = await self._channels.subscription(user, uid, record.id)
        return _followed(found or Subscription(record.id, record.url, 0.0), record)


def new_in_a_day(most: int) -> int:
    """Maximum number of new follows per day for a user who may follow `most` feeds (0: any number)."""
    return TIMES_A_DAY * most or NEW_FOLLOWS.most


async def unsubscribe(channels: Channels, feeds: Feeds, user: str, uid: str, feed_id: str) -> None:
    """Remove a channel that no longer follows a feed from the feed's followers.

    The last step of an unfollow. If the channel has followed the feed again meanwhile, it stays among them: otherwise
    the new subscription would receive nothing.
    """
    await feeds.unsubscribe(feed_id, user, uid)
    if await channels.follows(user, uid, feed_id):
        await feeds.subscribe(feed_id, user, uid)


def _named(subscriptions: Sequence[Subscription], url: str, known: str | None = None) -> Subscription | None:
    """The follow that a client means by `url`: as it was followed, or as our lists show it."""
    canonical = canonical_feed_url(url)
    for sub in subscriptions:
        shown = mask_credentials(sub.url) if "***" in url else sub.url
        if sub.feed == known or shown == url or canonical_feed_url(sub.url) == canonical:
            return sub
    return None


def not_followed(url: str) -> NotFound:
    """The error for a URL of which the user follows no feed."""
    return NotFound(f"'url' isn't followed: found '{mask_credentials(url)[:200]}', expected one of your feeds")


def _followed(subscription: Subscription, record: FeedRecord | None) -> Followed:
    return Followed(subscription, record or FeedRecord(subscription.feed, subscription.url))
