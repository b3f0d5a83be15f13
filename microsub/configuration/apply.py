"""Carrying out what an edit of backend.json asks for, and telling what the stores hold now.

The stores and services that are needed are named as protocols, with the methods and nothing more.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from microsub.configuration.changes import (
    Change,
    ChannelAdded,
    ChannelRemoved,
    ChannelRenamed,
    ChannelSettingsChanged,
    ChannelsReordered,
    Current,
    FeedAdded,
    FeedRemoved,
    FeedRenamed,
    InstanceSettingsChanged,
    RuleAdded,
    RuleRemoved,
    TokenEndpointChanged,
    UserAdded,
    UserChanged,
    UserQuotasChanged,
    UserRemoved,
    UserReturned,
    UserSettingsChanged,
)
from microsub.configuration.joining import Quotas
from microsub.configuration.model import ChannelConfig, FeedConfig, InstanceSettings, Limits, UserConfig
from microsub.configuration.persons import Clash, clashes
from microsub.configuration.store import InForce
from microsub.errors import InvalidRequest, NotFound
from microsub.formats.entry_id import canonical_feed_url
from microsub.identity.protocol.me import same_me
from microsub.identity.store.accounts import User
from microsub.kit.identifiers import PROFILE, unfit_profile
from microsub.model.reader import GLOBAL, Channel, ChannelSettings, Subscription
from microsub.settings import mask_password

_AT_ONCE = 8
"""Users that are looked at concurrently."""
_CHANNELS_AT_ONCE = 200
"""Channels of a user that are asked for in one round trip, so that those who read wait for no more than that."""


class AccountsPort(Protocol):
    """What is needed of `identity.store.accounts.Accounts`."""

    async def users(self) -> list[User]: ...  # noqa: D102
    async def add_user(self, name: str, me: str, now: float) -> User: ...  # noqa: D102
    async def set_me(self, name: str, me: str) -> None: ...  # noqa: D102
    async def set_token_endpoint(self, name: str, url: str | None) -> None: ...  # noqa: D102
    async def disable_user(self, name: str, now: float) -> None: ...  # noqa: D102
    async def restore_user(self, name: str) -> None: ...  # noqa: D102
    async def user(self, name: str) -> User | None: ...  # noqa: D102
    async def end_access(self, name: str) -> None: ...  # noqa: D102


class ChannelsPort(Protocol):
    """What is needed of `timelines.store.channels.Channels`."""

    async def list(self, user: str) -> list[Channel]: ...  # noqa: D102
    async def get(self, user: str, uid: str) -> Channel: ...  # noqa: D102
    async def create(self, user: str, name: str, now: float, uid: str | None = None) -> Channel: ...  # noqa: D102
    async def rename(self, user: str, uid: str, name: str, now: float) -> Channel: ...  # noqa: D102
    async def set_settings(self, user: str, uid: str, settings: ChannelSettings, now: float) -> Channel: ...  # noqa: D102
    async def order(self, user: str, uids: Sequence[str]) -> Sequence[Channel]: ...  # noqa: D102
    async def disable(self, user: str, uid: str, now: float) -> Sequence[str]: ...  # noqa: D102
    async def restore(self, user: str, uid: str) -> Sequence[str]: ...  # noqa: D102
    async def delete(self, user: str, uid: str) -> Sequence[str]: ...  # noqa: D102
    async def removed(self, user: str) -> Mapping[str, float]: ...  # noqa: D102
    async def changed(self, user: str, uids: Sequence[str]) -> Mapping[str, float]: ...  # noqa: D102
    async def subscriptions(self, user: str, uid: str) -> Sequence[Subscription]: ...  # noqa: D102
    async def all_subscriptions(  # noqa: D102
        self, user: str
    ) -> Mapping[str, Sequence[Subscription]]: ...
    async def update_subscription(  # noqa: D102
        self, user: str, uid: str, feed_id: str, *, name: str | None = None
    ) -> Subscription | None: ...


class FeedsPort(Protocol):
    """What is needed of `feeds.store.record.Feeds`."""

    async def unsubscribe(self, feed_id: str, user: str, uid: str) -> None: ...  # noqa: D102
    async def find_many(self, urls: Iterable[str]) -> Mapping[str, str]: ...  # noqa: D102


class RulesPort(Protocol):
    """What is needed of `timelines.store.rules.Rules`."""

    async def of_channels(  # noqa: D102
        self, user: str, uids: Sequence[str]
    ) -> Mapping[str, tuple[Collection[str], Collection[str]]]: ...
    async def mute(self, user: str, uid: str, url: str, now: float) -> Any: ...  # noqa: D102
    async def unmute(self, user: str, uid: str, url: str, now: float) -> Any: ...  # noqa: D102
    async def block(self, user: str, uid: str, url: str, now: float) -> Any: ...  # noqa: D102
    async def unblock(self, user: str, uid: str, url: str, now: float) -> Any: ...  # noqa: D102


class FollowingPort(Protocol):
    """What is needed of `timelines.following.Following`: both may be called twice without harm."""

    async def follow(self, user: str, uid: str, url: str, now: float, name: str | None = None) -> Any: ...  # noqa: D102
    async def unfollow(self, user: str, uid: str, url: str, now: float) -> Any: ...  # noqa: D102


class SettingsPort(Protocol):
    """What is needed of `store.applied.Applied` for settings."""

    async def in_force(self) -> InForce: ...  # noqa: D102
    async def set_instance(self, settings: InstanceSettings) -> None: ...  # noqa: D102
    async def set_user(self, user: str, limits: Limits) -> None: ...  # noqa: D102
    async def set_quotas(self, user: str, quotas: Quotas) -> None: ...  # noqa: D102


class Applier:
    """Applies changes one by one, each of which may be repeated, and gathers the state that they are decided on."""

    def __init__(
        self,
        accounts: AccountsPort,
        channels: ChannelsPort,
        feeds: FeedsPort,
        rules: RulesPort,
        following: FollowingPort,
        settings: SettingsPort,
    ) -> None:
        self._accounts = accounts
        self._channels = channels
        self._feeds = feeds
        self._rules = rules
        self._following = following
        self._settings = settings

    # --- what is there

    async def current(self, only: Collection[str] | None = None, *, declared: Collection[str] | None = None) -> Current:
        """What the stores hold; of users that aren't in `only` no more than that they exist, and where that isn't
        given, of those who are disabled, or registered themselves and aren't `declared`, of whom there may be many.
        """
        users, in_force = await asyncio.gather(self._accounts.users(), self._settings.in_force())
        gate = asyncio.Semaphore(_AT_ONCE)
        removed: set[tuple[str, str]] = set()
        changed: dict[tuple[str, str], float] = {}

        async def look(user: User) -> UserConfig:
            bare = UserConfig(
                user.name,
                user.me,
                settings=in_force.users.get(user.name, Limits()),
                token_endpoint=user.token_endpoint,
                quotas=in_force.quotas.get(user.name, Quotas()),
            )
            if user.name not in only if only is not None else user.disabled is not None:
                return bare
            if declared is not None and user.registered and user.name not in declared:
                return bare
            async with gate:
                channels, times = await self._channels_of(user.name)
                removed.update((user.name, uid) for uid in await self._channels.removed(user.name))
                changed.update(times)
                mute, block = (await self._rules.of_channels(user.name, [GLOBAL]))[GLOBAL]
            return replace(bare, channels=channels, mute=tuple(mute), block=tuple(block))

        found = {user.name: config for user, config in zip(users, await asyncio.gather(*map(look, users)), strict=True)}
        return Current(
            users={user.name: found[user.name] for user in users if user.disabled is None},
            settings=in_force.instance,
            disabled={user.name: found[user.name] for user in users if user.disabled is not None},
            removed=frozenset(removed),
            changed=changed,
            registered=frozenset(user.name for user in users if user.registered and user.disabled is None),
        )

    async def _channels_of(self, user: str) -> tuple[tuple[ChannelConfig, ...], dict[tuple[str, str], float]]:
        channels, subscriptions = await asyncio.gather(
            self._channels.list(user), self._channels.all_subscriptions(user)
        )
        found = []
        times = {}
        for start in range(0, len(channels), _CHANNELS_AT_ONCE):
            some = channels[start : start + _CHANNELS_AT_ONCE]
            uids = [channel.uid for channel in some]
            rules, changed = await asyncio.gather(
                self._rules.of_channels(user, uids), self._channels.changed(user, uids)
            )
            for channel in some:
                feeds = subscriptions.get(channel.uid, ())
                limits, filters = _limits(channel.settings)
                mute, block = rules[channel.uid]
                found.append(
                    ChannelConfig(
                        channel.uid,
                        channel.name,
                        tuple(FeedConfig(feed.url, feed.name) for feed in feeds),
                        limits,
                        filters,
                        tuple(mute),
                        tuple(block),
                    )
                )
                times[user, channel.uid] = max([changed[channel.uid], *(feed.followed_at for feed in feeds)])
        return tuple(found), times

    async def same_feed(self, *users: Iterable[UserConfig]) -> Callable[[str], str]:
        """The comparison form of the feeds' URLs in those users' channels: all that lead to one feed are equal.

        So a file may name a page while its feed is followed, or a feed's former address.
        """
        urls = (feed.url for part in users for user in part for channel in user.channels for feed in channel.feeds)
        known = await self._feeds.find_many(urls)
        return lambda url: f"feed {known[url]}" if url in known else canonical_feed_url(url)

    # --- what is to be done

    async def clashes(self, changes: Sequence[Change], *, disabled_too: bool = False) -> list[Clash]:
        """Whom these changes, all of them carried out, would make the same person as somebody else."""
        if not any(isinstance(change, UserAdded | UserReturned | UserChanged) and change.me for change in changes):
            return []
        return clashes(await self._accounts.users(), changes, disabled_too=disabled_too)

    async def vet(self, change: Change) -> None:
        """Raise InvalidRequest where this change, by itself, would make two users one person, or give somebody an
        address with which nobody can sign in.
        """
        coming_back = isinstance(change, UserAdded) and change.restored
        given = change.me if isinstance(change, UserAdded | UserReturned | UserChanged) and not coming_back else ""
        if given and (problem := unfit_profile(given)):
            raise InvalidRequest(f"'me' can't be used: found '{mask_password(given)}', {problem}; expected {PROFILE}")
        for clash in await self.clashes([change], disabled_too=not coming_back):
            raise InvalidRequest(str(clash))

    async def apply(self, change: Change, now: float, *, vetted: bool = False) -> None:
        """Carry out one change. Raises what `vet` and the stores raise; a change of what is gone already is no error.

        `vetted` is for who has looked at all changes together, which may be good where one alone isn't.
        """
        if not vetted:
            await self.vet(change)
        match change:
            case InstanceSettingsChanged(settings):
                await self._settings.set_instance(settings)
            case UserSettingsChanged(user, limits):
                await self._settings.set_user(user, limits)
            case UserQuotasChanged(user, quotas):
                await self._settings.set_quotas(user, quotas)
            case UserAdded(user, me, restored):
                await self._add_user(user, me, restored, now)
            case UserReturned(user, me):
                await self._bring_back(user, me, now)
            case UserChanged(user, me):
                await self._accounts.set_me(user, me)
            case TokenEndpointChanged(user, url):
                await self._accounts.set_token_endpoint(user, url)
            case UserRemoved(user):
                await self._remove_user(user, now)
            case RuleAdded() | RuleRemoved():
                await self._apply_rule(change, now)
            case FeedAdded() | FeedRenamed() | FeedRemoved():
                await self._apply_feed(change, now)
            case _:
                await self._apply_channel(change, now)

    async def _add_user(self, user: str, me: str, restored: bool, now: float) -> None:
        there = await self._accounts.add_user(user, me, now)
        if there.token_endpoint is not None:  # of a former life; a change of its own follows where the file has one
            await self._accounts.set_token_endpoint(user, None)
        if restored or there.disabled is not None:
            await self._bring_back(user, me, now)
        elif there.me != me:
            await self._accounts.set_me(user, me)

    async def _bring_back(self, user: str, me: str, now: float) -> None:
        """Enable a user, who follows again what their channels say."""
        for uid, subscriptions in (await self._channels.all_subscriptions(user)).items():
            await self._follow_again(user, uid, subscriptions, now)
        there = await self._accounts.user(user)
        # While nobody gets in: who comes back by that name with another address isn't known to be the same person.
        if there is not None and there.me != me:
            if not same_me(there.me, me):
                await self._accounts.end_access(user)
            await self._accounts.set_me(user, me)
        # Last: a user that a crash leaves disabled is restored by the next try, feeds and all.
        await self._accounts.restore_user(user)

    async def _remove_user(self, user: str, now: float) -> None:
        """Disable first, so that the tokens are dead before anything else; then nobody polls for this user."""
        await self._accounts.disable_user(user, now)
        for uid, subscriptions in (await self._channels.all_subscriptions(user)).items():
            for subscription in subscriptions:
                await self._feeds.unsubscribe(subscription.feed, user, uid)

    async def _follow_again(self, user: str, uid: str, subscriptions: Iterable[Subscription], now: float) -> None:
        """Bring back what stopped while a channel was away: following fills from the store and polls again."""
        for subscription in subscriptions:
            await self._following.follow(user, uid, subscription.url, now, subscription.name)

    async def _apply_channel(self, change: Change, now: float) -> None:
        match change:
            case ChannelAdded(user, uid, name, restored):
                if restored:
                    with contextlib.suppress(NotFound):  # it isn't removed any more
                        await self._channels.restore(user, uid)
                    await self._follow_again(user, uid, await self._channels.subscriptions(user, uid), now)
                channel = await self._channels.create(user, name, now, uid=uid)
                if channel.name != name:
                    await self._channels.rename(user, uid, name, now)
            case ChannelRenamed(user, uid, name):
                await self._channels.rename(user, uid, name, now)
            case ChannelRemoved(user, uid):
                for feed_id in await self._channels.disable(user, uid, now):
                    await self._feeds.unsubscribe(feed_id, user, uid)
            case ChannelSettingsChanged(user, uid, limits, filters):
                await self._channels.set_settings(user, uid, _settings(limits, filters), now)
            case ChannelsReordered(user, uids):
                there = {channel.uid for channel in await self._channels.list(user)}
                await self._channels.order(user, [uid for uid in uids if uid in there])
            case _:
                raise TypeError(f"not a change: {change!r}")

    async def _apply_feed(self, change: FeedAdded | FeedRenamed | FeedRemoved, now: float) -> None:
        user, uid, url = change.user, change.uid, change.url
        if isinstance(change, FeedRemoved):
            await self._following.unfollow(user, uid, url, now)
            return
        if isinstance(change, FeedAdded):
            followed = await self._following.follow(user, uid, url, now, change.name)
            if followed.subscription.name == change.name:
                return
        canonical, feed = canonical_feed_url(url), (await self._feeds.find_many([url])).get(url)
        for subscription in await self._channels.subscriptions(user, uid):
            meant = subscription.feed == feed or canonical_feed_url(subscription.url) == canonical
            if meant and subscription.name != change.name:
                await self._channels.update_subscription(user, uid, subscription.feed, name=change.name or "")

    async def _apply_rule(self, change: RuleAdded | RuleRemoved, now: float) -> None:
        adding = isinstance(change, RuleAdded)
        if change.kind == "mute":
            act = self._rules.mute if adding else self._rules.unmute
        else:
            act = self._rules.block if adding else self._rules.unblock
        await act(change.user, change.uid, change.url, now)


def _limits(settings: ChannelSettings) -> tuple[Limits, Mapping[str, Any]]:
    limits = Limits(
        keep_read_days=settings.keep_read_days,
        keep_unread_days=settings.keep_unread_days,
        max_items=settings.max_items,
        unread=settings.unread,
        first_fetch_unread=settings.first_fetch_unread,
    )
    return limits, settings.filters


def _settings(limits: Limits, filters: Mapping[str, Any]) -> ChannelSettings:
    return ChannelSettings(
        unread=limits.unread,
        keep_read_days=limits.keep_read_days,
        keep_unread_days=limits.keep_unread_days,
        max_items=limits.max_items,
        first_fetch_unread=limits.first_fetch_unread,
        filters=filters,
    )
