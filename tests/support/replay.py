"""What changes do to a state, in memory: the meaning of `configuration.changes` for tests of pure decisions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

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
from microsub.configuration.model import ChannelConfig, FeedConfig, UserConfig

Part = TypeVar("Part", UserConfig, ChannelConfig)


def replay(current: Current, changes: Iterable[Change]) -> Current:
    """The state after `changes`. Fails on a change that a store would have to refuse."""
    for change in changes:
        current = _one(current, change)
    return current


def _one(current: Current, change: Change) -> Current:
    if isinstance(change, InstanceSettingsChanged):
        return replace(current, settings=change.settings)
    name = change.user
    users = dict(current.users)
    if isinstance(change, UserRemoved):
        return replace(current, disabled={**current.disabled, name: users.pop(name)}, users=users)
    if isinstance(change, UserAdded):
        assert name not in users
        assert name not in current.disabled
        users[name] = UserConfig(name, change.me, (ChannelConfig("notifications", "notifications"),))
        return replace(current, users=users)
    disabled = dict(current.disabled)
    if isinstance(change, UserReturned):
        users[name] = replace(disabled.pop(name), me=change.me)
        return replace(current, users=users, disabled=disabled)
    removed = current.removed
    if isinstance(change, ChannelRemoved):
        removed |= {(name, change.uid)}
    if isinstance(change, ChannelAdded):
        assert change.restored == ((name, change.uid) in removed)
        removed -= {(name, change.uid)}
    place = disabled if name in disabled else users
    place[name] = _user(place[name], change)
    return replace(current, users=users, disabled=disabled, removed=removed)


def _user(user: UserConfig, change: Change) -> UserConfig:
    match change:
        case UserChanged(me=me):
            return replace(user, me=me)
        case TokenEndpointChanged(url=url):
            return replace(user, token_endpoint=url)
        case UserSettingsChanged(settings=settings):
            return replace(user, settings=settings)
        case UserQuotasChanged(quotas=quotas):
            return replace(user, quotas=quotas)
        case RuleAdded(uid="global") | RuleRemoved(uid="global"):
            return _rule(user, change)
        case ChannelAdded(uid=uid, name=name):
            assert user.by_uid().get(uid) is None
            return replace(user, channels=(*user.channels, ChannelConfig(uid, name)))
        case ChannelRemoved(uid=uid):
            assert user.by_uid().get(uid) is not None
            return replace(user, channels=tuple(each for each in user.channels if each.uid != uid))
        case ChannelsReordered(uids=uids):
            there = {each.uid: each for each in user.channels}
            fixed = tuple(each for each in user.channels if each.uid == "notifications")
            assert sorted(uids) == sorted(set(there) - {"notifications"})
            return replace(user, channels=(*fixed, *(there[uid] for uid in uids)))
        case _:
            uid = change.uid  # type: ignore[union-attr]
            assert user.by_uid().get(uid) is not None
            return replace(
                user, channels=tuple(_channel(each, change) if each.uid == uid else each for each in user.channels)
            )


def _channel(channel: ChannelConfig, change: Change) -> ChannelConfig:
    match change:
        case ChannelRenamed(name=name):
            return replace(channel, name=name)
        case ChannelSettingsChanged(settings=settings, filters=filters):
            return replace(channel, settings=settings, filters=filters)
        case FeedAdded(url=url, name=name):
            assert all(feed.url != url for feed in channel.feeds)
            return replace(channel, feeds=(*channel.feeds, FeedConfig(url, name)))
        case FeedRemoved(url=url):
            assert any(feed.url == url for feed in channel.feeds)
            return replace(channel, feeds=tuple(feed for feed in channel.feeds if feed.url != url))
        case FeedRenamed(url=url, name=name):
            assert any(feed.url == url for feed in channel.feeds)
            return replace(
                channel, feeds=tuple(FeedConfig(url, name) if feed.url == url else feed for feed in channel.feeds)
            )
        case RuleAdded() | RuleRemoved():
            return _rule(channel, change)
        case _:
            raise AssertionError(change)


def _rule(part: Part, change: RuleAdded | RuleRemoved) -> Part:
    rules = set(part.mute if change.kind == "mute" else part.block)
    assert (change.url in rules) == isinstance(change, RuleRemoved)
    rules ^= {change.url}
    if change.kind == "mute":
        return replace(part, mute=tuple(sorted(rules)))
    return replace(part, block=tuple(sorted(rules)))
