"""The credentials of followed feeds: a user who gives some follows a feed of their own (`feeds.sign_ins`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from microsub.base.errors import InvalidRequest, NotFound, QuotaReached, RequestError
from microsub.base.texts import N_
from microsub.base.urls import canonical_feed_url, password_of, sign_in_of, without_credentials
from microsub.feeds import FeedRecord, Feeds, SignIns
from microsub.model.reader import Subscription
from microsub.model.sign_ins import sign_in_headers
from microsub.redis.protocol import Redis
from microsub.timelines.channels.follows import every_channel
from microsub.timelines.channels.store import Channels
from microsub.timelines.follow import Followed, Following

SignedState = Literal["none", "given", "lost"]


class SignedFeeds:
    """Sets and removes sign-ins. Times are Unix seconds; repeat a call that was interrupted."""

    def __init__(self, redis: Redis, channels: Channels, feeds: Feeds, sign_ins: SignIns, following: Following) -> None:
        self._redis = redis
        self._channels = channels
        self._feeds = feeds
        self._sign_ins = sign_ins
        self._following = following

    async def give(
        self, user: str, feed_id: str, headers: Mapping[str, str], now: float, *, most: int | None = None
    ) -> FeedRecord:
        """Have a followed feed asked for with these headers; returns the user's own feed, followed instead of it.

        Raises NotFound if the user doesn't follow it, InvalidRequest for one that isn't polled, and what
        `Following.change_address` and `SignIns` raise.
        """
        record = await self._polled(user, feed_id)
        address = await self._sign_ins.keep(user, record.url, headers, now)
        try:
            own = await self._change(user, record, address, now, most)
        except QuotaReached:
            await self.prune(user, now, address)  # each attempt would take some kilobytes for a day
            raise
        await self._sign_ins.keep(user, record.url, headers, now)  # another follow of it may have ended meanwhile
        return own

    async def follow(self, user: str, uid: str, url: str, now: float, *, most: int | None = None) -> Followed:
        """Follow the feed at an address, whose user name and password, if it has any, are kept sealed instead.

        Raises what `Following.follow` and `SignIns` raise.
        """
        given = password_of(url)
        if given is None:
            return await self._following.follow(user, uid, url, now, most=most)
        headers = sign_in_headers(*given)
        address = await self._sign_ins.keep(user, url, headers, now)
        try:
            followed = await self._following.follow(user, uid, address, now, most=most)
        except RequestError:
            await self.prune(user, now, address)
            raise
        await self._sign_ins.keep(user, url, headers, now)  # another follow of it may have ended meanwhile
        return followed

    async def follow_at(self, user: str, uid: str, feed_id: str, url: str, now: float) -> None:
        """Have a channel follow a feed at an address with another sign-in (`address_with`), or none, in place of this.

        Raises what `Following.change_address` raises.
        """
        record = await self._feeds.get(feed_id)
        await self._following.change_address(user, feed_id, url, now, only=uid)
        await self.prune(user, now, record.url if record is not None else "")

    async def address_with(self, user: str, url: str, headers: Mapping[str, str], now: float | None) -> str:
        """The address at which the user follows the feed at `url` with these headers, which are kept at time `now`.

        Nothing is kept without a time. Raises ConfigError if there is no usable key.
        """
        if now is None:
            return self._sign_ins.address(user, url, headers)
        return await self._sign_ins.keep(user, url, headers, now)

    async def remove(self, user: str, feed_id: str, now: float) -> FeedRecord:
        """Have a followed feed asked for without credentials; returns the feed that all such followers share.

        Raises what `give` raises, but no quota refuses it.
        """
        record = await self._polled(user, feed_id)
        return await self._change(user, record, without_credentials(record.url), now, None)

    async def state(self, record: FeedRecord) -> SignedState:
        """Whether a feed is asked for with credentials, and whether these can be read."""
        if sign_in_of(record.url) is not None:
            return "given" if await self._sign_ins.is_readable(record.url) else "lost"
        return "given" if without_credentials(record.url) != record.url else "none"

    async def prune(self, user: str, now: float, dropped: str = "") -> None:
        """Delete the user's sign-ins that no follow names (`SignIns.forget`)."""
        held = await self._sign_ins.held(user)
        if not held:
            return
        everywhere = await self._channels.subscriptions_of(user, await every_channel(self._redis, user))
        followed = {one.feed: one.url for some in everywhere.values() for one in some}
        records = await self._feeds.get_many(followed)
        addresses = {*followed.values(), *(one.url for one in records.values())}
        await self._sign_ins.forget(user, held, addresses, now, dropped)

    async def renew(self, user: str, follow: Subscription, now: float) -> None:
        """Keep the sign-in of a follow for a day, because its end may be undone."""
        record = await self._feeds.get(follow.feed)
        for url in {follow.url, record.url if record is not None else follow.url}:
            await self._sign_ins.renew(user, url, now)

    async def _polled(self, user: str, feed_id: str) -> FeedRecord:
        if feed_id not in await self._channels.followed_feeds(user):
            raise NotFound(N_("You don’t follow this feed."))
        record = await self._feeds.get(feed_id)
        if record is None or not record.poll_host:
            raise InvalidRequest(N_("This feed has no address on the web."))
        return record

    async def _change(self, user: str, former: FeedRecord, url: str, now: float, most: int | None) -> FeedRecord:
        if canonical_feed_url(url) == former.url:
            return former
        record = await self._following.change_address(user, former.id, url, now, most=most)
        await self.prune(user, now, former.url)
        return record
