"""Sources: scripts and apps that may post into a user's channel without a feed on the web.

A source's posts are in an internal feed (`feeds.internal`), which the channel follows. So its user moves it to another
channel or ends it like any feed, and if no channel follows it, it can't post. A source has one token, found by its
mark. If an app got the source on the consent page, its tokens are those of a grant.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass

import orjson

from microsub.accounts import SOURCE_MARK, Accounts, OwnToken, absent, end_source
from microsub.base.digests import new_secret
from microsub.base.errors import InvalidRequest, NotFound, QuotaReached
from microsub.base.plaintext import unprintable
from microsub.configuration.model import SourceConfig
from microsub.feeds import Feeds, Source
from microsub.model.reader import NAME, POSTING_SCOPES, SAVED
from microsub.redis import keys
from microsub.redis.protocol import Redis
from microsub.redis.replies import reading
from microsub.redis.structures import Hash
from microsub.timelines import MOST_OF_NAME, Channels, Following, slug

_CHANGED_AT_ONCE = 10


@dataclass(eq=False, repr=False)
class Sources:
    """The sources of all users. Methods that take a source's id raise NotFound for an unknown one."""

    redis: Redis
    accounts: Accounts
    channels: Channels
    feeds: Feeds
    following: Following

    async def create(
        self, user: str, uid: str, name: str, now: float, *, app: str = "", source: str = "", most: int = 0
    ) -> Source:
        """Create a source that posts into the channel, or move an existing `source` to it.

        Without an id, it is derived from the name. Raises NotFound if the channel doesn't exist, InvalidRequest for
        `saved` and for an invalid name or id, QuotaReached if the user has `most` sources (0: no limit).
        """
        name = _checked_name(name)
        if source and not NAME.match(source):
            raise InvalidRequest(f"'{source[:80]}' can't be a source's id: expected 1 to 64 of A-Z a-z 0-9 _ -")
        if uid == SAVED:
            raise InvalidRequest("the channel 'saved' can't have a source: it contains only what you save")
        await self.channels.get(user, uid)
        by_name = slug(name)[:48]
        for wanted in (source,) if source else (by_name, f"{by_name}-{secrets.token_hex(4)}"):
            made = Source(user, wanted, name, new_secret(), now, now, app)
            if await self._write(made, most):
                break
        await self.lead(user, made.id, uid, now)
        return await self.get(user, made.id)

    async def lead(self, user: str, source: str, uid: str, now: float) -> None:
        """Let the source post into that channel only; its earlier posts move too."""
        found = await self.get(user, source)
        followed = await self._followers(found)
        if uid in followed and len(followed) == 1:
            return
        if followed:
            await self.following.move(user, uid, found.address, now)
        else:
            await self.following.follow(user, uid, found.address, now, found.name)

    async def put(self, user: str, source: str, settings: SourceConfig, now: float) -> None:
        """Create or change the source as backend.json declares it."""
        uid, name = settings.channel, settings.name or source
        made = await self.create(user, uid, name, now, source=source)
        if made.name != name:
            await self.rename(user, source, name, now)

    async def rename(self, user: str, source: str, name: str, now: float) -> None:
        """Rename the source; readers see the new name from now on."""
        for _ in range(_CHANGED_AT_ONCE):
            found = await self.get(user, source)
            changed = _encoded(Source(user, source, _checked_name(name), found.seed, found.created, now, found.app))
            if await self._of(user).change((source, _encoded(found), changed)):
                break
        for uid in await self._followers(found):
            feed = await self.feeds.find(found.address)
            if feed is not None:
                await self.channels.update_subscription(user, uid, feed, name=name)

    async def get(self, user: str, source: str) -> Source:
        """The source with that id."""
        found = await self._of(user).get(source)
        if found is None:
            raise NotFound(f"there is no source '{source[:80]}'")
        return _source(user, source, found)

    async def all_of(self, user: str) -> list[Source]:
        """The user's sources, the oldest first."""
        sources = [_source(user, source, value) for source, value in (await self._of(user).all()).items()]
        return sorted(sources, key=lambda source: (source.created, source.id))

    async def of_app(self, user: str, app: str, uid: str) -> Source | None:
        """The source with which that app already posts into the channel."""
        for source in await self.all_of(user):
            if source.app == app and uid in await self._followers(source):
                return source
        return None

    async def former_channel(self, user: str, app: str) -> str | None:
        """The channel into which that app last got a source, if it still leads there."""
        found = [source for source in await self.all_of(user) if source.app == app]
        return await self.channel_of(found[-1]) if found else None

    async def channels_of(self, user: str, sources: Collection[str]) -> dict[str, str | None]:
        """The channels into which these sources post; None for those whose user has ended that."""
        found = await self.with_channels(user) if sources else []
        return {source.id: uid for source, uid in found if source.id in sources}

    async def with_channels(self, user: str) -> list[tuple[Source, str | None]]:
        """The user's sources, the oldest first, each with its channel, or None if its user has ended that."""
        found = await self.all_of(user)
        feeds = await self.feeds.find_many(source.address for source in found)
        everywhere = await self.channels.all_subscriptions(user) if feeds else {}
        uids: dict[str, str] = {}
        for uid, followed in everywhere.items():
            for one in followed:
                uids.setdefault(one.feed, uid)
        return [(source, uids.get(feeds.get(source.address, ""))) for source in found]

    async def channel_of(self, source: Source) -> str | None:
        """The channel into which it posts, or None if its user has ended that."""
        return next(iter(await self._followers(source)), None)

    async def _followers(self, source: Source) -> list[str]:
        """The channels that follow its feed: more than one for a moment while it moves."""
        feed = await self.feeds.find(source.address)
        everywhere = await self.channels.all_subscriptions(source.user) if feed is not None else {}
        return [uid for uid, followed in everywhere.items() if any(one.feed == feed for one in followed)]

    async def renew_token(self, user: str, source: str, now: float) -> str:
        """Replace the source's token; the new one is returned only here, the old one ends."""
        found = await self.get(user, source)
        mark = f"{SOURCE_MARK}{found.id}"
        return await self.accounts.create_token(user, POSTING_SCOPES, found.name, now, mark=mark)

    async def revoke(self, user: str, source: str) -> None:
        """End the source with its token and its app's grants. Its posts stay."""
        await self.get(user, source)
        await end_source(self.redis, user, source)
        await self._of(user).delete(source)
        # Again, for a grant whose consent was under way.
        await end_source(self.redis, user, source)

    async def _write(self, source: Source, most: int) -> bool:
        """Write a source; False if its id exists. Raises QuotaReached, NotFound for an unknown user."""
        reply = await self._of(source.user).create(source.id, _encoded(source), keys.user(source.user), most or "")
        if reply < 0:
            raise await absent(self.redis, source.user)
        if reply > 1:
            raise QuotaReached("sources", reply - 2, most)
        return bool(reply)

    def _of(self, user: str) -> Hash:
        return Hash(self.redis, keys.sources(user))


def source_in(own: OwnToken) -> Source | None:
    """The source that a token leads to, as it was when the token was checked; None if it was revoked."""
    return None if own.record is None else _source(own.user, own.source, own.record)


def _checked_name(name: str) -> str:
    found = " ".join(name.split())
    if not found or len(found) > MOST_OF_NAME or unprintable(found):
        raise InvalidRequest(f"'{name[:80]}' can't name a source: expected 1 to {MOST_OF_NAME} printable characters")
    return found


def _encoded(source: Source) -> bytes:
    value = {"name": source.name, "seed": source.seed, "created": source.created, "changed": source.changed}
    return orjson.dumps(value | ({"app": source.app} if source.app else {}), option=orjson.OPT_SORT_KEYS)


def _source(user: str, source: str, value: bytes) -> Source:
    with reading(f"{keys.sources(user)} {source}"):
        found = orjson.loads(value)
        return Source(
            user, source, found["name"], found["seed"], found["created"], found["changed"], found.get("app", "")
        )
