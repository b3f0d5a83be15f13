"""An admin's changes to users and their data: by backend.json, a command or an import.

No two users have the same URL, because signing in with a URL leads to one account. Everything that gives a user a URL
goes through `Applier.apply`, which checks that. Only registration doesn't: admission has already compared the person
with all users (`identity.admission`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from microsub.base.errors import InvalidRequest, NotFound
from microsub.base.identifiers import PROFILE, same_me, unfit_profile
from microsub.base.settings import mask_password
from microsub.base.urls import canonical_feed_url, normalise_person, sign_in_of
from microsub.configuration.facts import Change, ChangeKind, Clash, Current, Form
from microsub.configuration.model import NO_SIGN_IN, ChannelConfig, FeedConfig, SourceConfig, UserConfig
from microsub.feeds import InternalAddress
from microsub.model.reader import GLOBAL, SAVED, Subscription

if TYPE_CHECKING:
    from microsub.accounts import Accounts, User
    from microsub.configuration.effective import DeclaredSettings
    from microsub.configuration.model import Backend
    from microsub.feeds import Feeds, OutputStore, SourceStore
    from microsub.timelines import Channels, Following, Rules, SignedFeeds

_AT_ONCE = 8
"""How many users are read concurrently."""
_CHANNELS_AT_ONCE = 200
"""How many of a user's channels are read in one round trip, so that other requests don't wait longer."""

_GIVE_ADDRESS = frozenset({ChangeKind.USER_ADDED, ChangeKind.USER_RETURNED, ChangeKind.SITE})


def clashes(users: Iterable[User], changes: Iterable[Change], *, disabled_too: bool = False) -> list[Clash]:
    """The users who would have the same URL as another user after all `changes`. Pure.

    Two users who already share a URL, and don't change, are left out. Disabled users count only with `disabled_too`,
    because a file may give a person a new name.
    """
    known = list(users)
    addresses = {user.name: user.me for user in known if disabled_too or user.disabled is None}
    given: dict[str, str] = {}
    for change in changes:
        if change.what in _GIVE_ADDRESS:
            addresses[change.user] = given[change.user] = change.value
        elif change.what is ChangeKind.USER_REMOVED:
            addresses.pop(change.user, None)
            given.pop(change.user, None)
    holders: dict[str, list[str]] = {}
    for name, me in addresses.items():
        if me:
            holders.setdefault(normalise_person(me), []).append(name)
    disabled = {user.name for user in known if user.disabled is not None}
    return [
        Clash(name, me, other, addresses[other], other in disabled and other not in given)
        for name, me in given.items()
        if me
        for other in holders[normalise_person(me)]
        if other != name
    ]


@dataclass(eq=False, repr=False)
class Applier:
    """Applies changes, each of them idempotent, and reads the state on which they are decided."""

    accounts: Accounts
    channels: Channels
    feeds: Feeds
    rules: Rules
    following: Following
    settings: DeclaredSettings
    outputs: OutputStore
    sources: SourceStore
    signed: SignedFeeds

    # --- the present state

    async def current(self, only: Collection[str] | None = None, *, declared: Collection[str] | None = None) -> Current:
        """The state of the stores, with all data of the users in `only`.

        Without `only`, these are all users except disabled ones, and registered ones who aren't `declared`: there may
        be many of them.
        """
        users, effective = await asyncio.gather(self.accounts.users(), self.settings.everything())
        at_once = asyncio.Semaphore(_AT_ONCE)
        removed: set[tuple[str, str]] = set()
        changed: dict[tuple[str, str], float] = {}

        async def look(user: User) -> UserConfig:
            bare = UserConfig(
                user.me,
                token_endpoint=user.token_endpoint,
                admin=user.admin,
                settings=effective.of_user(user.name),
                filters=user.filters,
            )
            if user.name not in only if only is not None else user.disabled is not None:
                return bare
            if declared is not None and user.registered and user.name not in declared:
                return bare
            async with at_once:
                channels, times = await self._channels_of(user.name)
                removed.update((user.name, uid) for uid in await self.channels.removed(user.name))
                changed.update(times)
                mute, block = (await self.rules.of_channels(user.name, [GLOBAL]))[GLOBAL]
                outputs = await self.outputs.all_of(user.name)
                changed.update({(user.name, f"output {feed.name}"): feed.changed for feed in outputs})
                sources = await self.sources.with_channels(user.name)
                changed.update({(user.name, f"source {source.id}"): source.changed for source, _ in sources})
                posting = {
                    source.id: SourceConfig(uid, source.name if source.name != source.id else None)
                    for source, uid in sources
                    if uid is not None and not source.app
                }
            # A feed whose channel was removed gets no more posts, and a file can't declare it.
            there = {None, SAVED, *(channel.uid for channel in channels)}
            said = {feed.name: feed.settings for feed in outputs if feed.settings.channel in there}
            bare = replace(bare, outputs=said, sources=posting)
            return replace(bare, channels=channels, mute=tuple(mute), block=tuple(block))

        found = {user.name: config for user, config in zip(users, await asyncio.gather(*map(look, users)), strict=True)}
        return Current(
            users={user.name: found[user.name] for user in users if user.disabled is None},
            settings=effective.instance,
            disabled={user.name: found[user.name] for user in users if user.disabled is not None},
            removed=frozenset(removed),
            changed=changed,
            registered=frozenset(user.name for user in users if user.registered and user.disabled is None),
        )

    async def _channels_of(self, user: str) -> tuple[tuple[ChannelConfig, ...], dict[tuple[str, str], float]]:
        channels, subscriptions = await asyncio.gather(self.channels.list(user), self.channels.all_subscriptions(user))
        # backend.json doesn't need a channel without follows and limits.
        channels = [channel for channel in channels if channel.uid != SAVED]
        found = []
        times = {}
        for start in range(0, len(channels), _CHANNELS_AT_ONCE):
            some = channels[start : start + _CHANNELS_AT_ONCE]
            uids = [channel.uid for channel in some]
            rules, changed = await asyncio.gather(self.rules.of_channels(user, uids), self.channels.changed(user, uids))
            for channel in some:
                feeds = subscriptions.get(channel.uid, ())
                mute, block = rules[channel.uid]
                found.append(
                    ChannelConfig(
                        channel.uid,
                        channel.name,
                        tuple(FeedConfig.of(one) for one in feeds if InternalAddress.of(one.url) is None),
                        channel.settings,
                        tuple(mute),
                        tuple(block),
                    )
                )
                times[user, channel.uid] = max([changed[channel.uid], *(feed.followed_at for feed in feeds)])
        return tuple(found), times

    async def form(self, *users: Iterable[UserConfig]) -> Form:
        """How addresses of feeds are compared in these users' channels: all URLs of a feed are equal.

        So a file may contain the page of a followed feed, or a feed's former URL.
        """
        urls = (feed.url for part in users for user in part for channel in user.channels for feed in channel.feeds)
        known = await self.feeds.find_many(urls)
        return lambda url: f"feed {known[url]}" if url in known else canonical_feed_url(url)

    async def with_addresses(self, backend: Backend, now: float | None) -> Backend:
        """The declarations with each sign-in of a feed as its address, which has no secret (`feeds.sign_ins`).

        What they send is sealed in the store at time `now`, or, without a time, not kept. Raises ConfigError if there
        is no usable key.
        """
        users = dict(backend.users)
        for name, user in backend.users.items():
            if not any(feed.sign_in.sent() for channel in user.channels for feed in channel.feeds):
                continue
            channels = [
                replace(channel, feeds=tuple([await self._at_address(name, feed, now) for feed in channel.feeds]))
                for channel in user.channels
            ]
            users[name] = replace(user, channels=tuple(channels))
        return replace(backend, users=users) if users != backend.users else backend

    async def _at_address(self, user: str, feed: FeedConfig, now: float | None) -> FeedConfig:
        if not (headers := feed.sign_in.sent()):
            return feed
        url = await self.signed.address_with(user, feed.url, headers, now)
        return replace(feed, url=url, sign_in=NO_SIGN_IN)

    # --- changes

    async def clashes(self, changes: Sequence[Change], *, disabled_too: bool = False) -> list[Clash]:
        """The users who would share a URL with another user after all these changes."""
        if not any(change.what in _GIVE_ADDRESS and change.value for change in changes):
            return []
        return clashes(await self.accounts.users(), changes, disabled_too=disabled_too)

    async def vet(self, change: Change) -> None:
        """Raise InvalidRequest for a URL that another user has, or that can't be used to sign in."""
        given = change.value if change.what in _GIVE_ADDRESS and not change.restored else ""
        if given and (problem := unfit_profile(given)):
            raise InvalidRequest(f"'me' can't be used: found '{mask_password(given)}', {problem}; expected {PROFILE}")
        for clash in await self.clashes([change], disabled_too=not change.restored):
            raise InvalidRequest(str(clash))

    async def apply(self, change: Change, now: float, *, vetted: bool = False) -> None:
        """Apply one change. Raises what `vet` and the stores raise; a missing subject is no error.

        `vetted`: the caller has checked all changes together, which may be valid even if one alone isn't.
        """
        if not vetted:
            await self.vet(change)
        user, uid, value = change.user, change.uid, change.value
        match change.what:
            case ChangeKind.INSTANCE:
                await self.settings.set_instance(value)
            case ChangeKind.USER_SETTINGS:
                await self.settings.set_user(user, value)
            case ChangeKind.FILTERS:
                await self.accounts.set_settings(user, {"filters": value.stored()})
            case ChangeKind.USER_ADDED:
                await self._add_user(user, value, change.restored, now)
            case ChangeKind.USER_RETURNED:
                await self._bring_back(user, value, now)
            case ChangeKind.SITE | ChangeKind.TOKEN_ENDPOINT | ChangeKind.ADMIN:
                await self._change_account(change)
            case ChangeKind.USER_REMOVED:
                await self._remove_user(user, now)
            case ChangeKind.CHANNEL_ADDED:
                await self._add_channel(change, now)
            case ChangeKind.CHANNEL_RENAMED:
                await self.channels.rename(user, uid, value, now)
            case ChangeKind.CHANNEL_REMOVED:
                await self.following.remove_channel(user, uid, now)
            case ChangeKind.CHANNEL_SETTINGS:
                await self.channels.set_settings(user, uid, value, now)
            case ChangeKind.REORDERED:
                there = {channel.uid for channel in await self.channels.list(user)}
                await self.channels.order(user, [uid for uid in value if uid in there])
            case ChangeKind.MUTED:
                await self.rules.mute(user, uid, value, now)
            case ChangeKind.UNMUTED:
                await self.rules.unmute(user, uid, value, now)
            case ChangeKind.BLOCKED:
                await self.rules.block(user, uid, value, now)
            case ChangeKind.UNBLOCKED:
                await self.rules.unblock(user, uid, value, now)
            case ChangeKind.OUTPUT_ADDED | ChangeKind.OUTPUT_CHANGED:
                await self.outputs.put(user, uid, value, now)
            case ChangeKind.OUTPUT_REMOVED:
                with contextlib.suppress(NotFound):
                    await self.outputs.remove(user, uid, now)
            case ChangeKind.SOURCE_ADDED | ChangeKind.SOURCE_CHANGED | ChangeKind.SOURCE_REMOVED:
                await self._source(change, now)
            case ChangeKind.FEED_REMOVED:
                await self._unfollow(user, uid, value.url, now)
            case ChangeKind.FEED_ADDED | ChangeKind.FEED_SIGNED | ChangeKind.FEED_RENAMED | ChangeKind.FEED_CHANGED:
                await self._follow(change, now)

    async def _change_account(self, change: Change) -> None:
        if change.what is ChangeKind.SITE:
            await self.accounts.set_me(change.user, change.value)
        elif change.what is ChangeKind.ADMIN:
            await self.accounts.set_admin(change.user, change.value)
        else:
            await self.accounts.set_token_endpoint(change.user, change.value)

    async def _add_user(self, user: str, me: str, restored: bool, now: float) -> None:
        there = await self.accounts.add_user(user, me, now)
        if there.token_endpoint is not None:  # from before; if the file declares one, its own change follows
            await self.accounts.set_token_endpoint(user, None)
        if restored or there.disabled is not None:
            await self._bring_back(user, me, now)
        elif there.me != me:
            await self.accounts.set_me(user, me)

    async def _bring_back(self, user: str, me: str, now: float) -> None:
        """Enable a user, and follow the feeds of their channels again."""
        for uid, subscriptions in (await self.channels.all_subscriptions(user)).items():
            await self._follow_again(user, uid, subscriptions, now)
        there = await self.accounts.user(user)
        # While nobody can sign in: a returning user with another URL may not be the same person.
        if there is not None and there.me != me:
            if not same_me(there.me, me):
                await self.accounts.end_access(user)
            await self.accounts.set_me(user, me)
        # Last: if a crash leaves the user disabled, the next attempt restores everything, including feeds.
        await self.accounts.restore_user(user)

    async def _remove_user(self, user: str, now: float) -> None:
        """Disable the user first, which revokes the tokens; then unsubscribe their feeds."""
        await self.accounts.disable_user(user, now)
        for uid, subscriptions in (await self.channels.all_subscriptions(user)).items():
            for subscription in subscriptions:
                await self.feeds.unsubscribe(subscription.feed, user, uid)

    async def _follow_again(self, user: str, uid: str, subscriptions: Iterable[Subscription], now: float) -> None:
        """Follow a channel's feeds again, which fills the timeline from the store and polls them."""
        for subscription in subscriptions:
            await self.following.follow_again(user, uid, subscription, now)

    async def _add_channel(self, change: Change, now: float) -> None:
        user, uid, name = change.user, change.uid, change.value
        if change.restored:
            await self.following.restore_channel(user, uid, now)
        channel = await self.channels.create(user, name, now, uid=uid)
        if channel.name != name:
            await self.channels.rename(user, uid, name, now)

    async def _source(self, change: Change, now: float) -> None:
        if change.what is not ChangeKind.SOURCE_REMOVED:
            await self.sources.put(change.user, change.uid, change.value, now)
            return
        with contextlib.suppress(NotFound):
            await self.sources.revoke(change.user, change.uid)

    async def _unfollow(self, user: str, uid: str, url: str, now: float) -> None:
        await self.following.unfollow(user, uid, url, now)
        if sign_in_of(url) is not None:
            await self.signed.prune(user, now, url)

    async def _sign(self, change: Change, now: float) -> None:
        """Follow a feed at the address with its new sign-in; what the file says besides comes with further changes."""
        former = canonical_feed_url(change.former.url) if change.former is not None else ""
        for one in await self.channels.subscriptions(change.user, change.uid):
            if canonical_feed_url(one.url) == former:
                await self.signed.follow_at(change.user, change.uid, one.feed, change.value.url, now)

    async def _follow(self, change: Change, now: float) -> None:
        user, uid, wanted = change.user, change.uid, change.value
        if change.what is ChangeKind.FEED_SIGNED:
            await self._sign(change, now)
            return
        if change.what is ChangeKind.FEED_ADDED:
            followed = await self.following.follow(user, uid, wanted.url, now, wanted.name, settings=wanted.settings)
            if FeedConfig.of(replace(followed.subscription, url=wanted.url)) == wanted:
                return
        name = None if change.what is ChangeKind.FEED_CHANGED else wanted.name or ""
        settings = None if change.what is ChangeKind.FEED_RENAMED else wanted.settings
        former = None if change.former is None else change.former.settings
        canonical = canonical_feed_url(wanted.url)
        feed = (await self.feeds.find_many([wanted.url])).get(wanted.url)
        for one in await self.channels.subscriptions(user, uid):
            if one.feed == feed or canonical_feed_url(one.url) == canonical:
                await self.following.change(user, uid, one.feed, now, name=name, settings=settings, former=former)
