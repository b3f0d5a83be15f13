"""The effect of changes on a state in memory: `configuration.facts.Change` for tests of pure decisions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from microsub.configuration.facts import (
    Change,
    ChangeKind,
    Current,
)
from microsub.configuration.model import ChannelConfig, UserConfig

Part = TypeVar("Part", UserConfig, ChannelConfig)


def replay(current: Current, changes: Iterable[Change]) -> Current:
    """The state after `changes`. Fails on a change that a store would refuse."""
    for change in changes:
        current = _one(current, change)
    return current


def _one(current: Current, change: Change) -> Current:
    if change.what is ChangeKind.INSTANCE:
        return replace(current, settings=change.value)
    name = change.user
    users = dict(current.users)
    if change.what is ChangeKind.USER_REMOVED:
        return replace(current, disabled={**current.disabled, name: users.pop(name)}, users=users)
    if change.what is ChangeKind.USER_ADDED:
        assert name not in users
        assert name not in current.disabled
        users[name] = UserConfig(change.value, channels=(ChannelConfig("notifications"),))
        return replace(current, users=users)
    disabled = dict(current.disabled)
    if change.what is ChangeKind.USER_RETURNED:
        users[name] = replace(disabled.pop(name), me=change.value)
        return replace(current, users=users, disabled=disabled)
    removed = current.removed
    if change.what is ChangeKind.CHANNEL_REMOVED:
        removed |= {(name, change.uid)}
    if change.what is ChangeKind.CHANNEL_ADDED:
        assert change.restored == ((name, change.uid) in removed)
        removed -= {(name, change.uid)}
    place = disabled if name in disabled else users
    place[name] = _user(place[name], change)
    return replace(current, users=users, disabled=disabled, removed=removed)


def _user(user: UserConfig, change: Change) -> UserConfig:
    uid = change.uid
    match change.what:
        case ChangeKind.SITE:
            return replace(user, me=change.value)
        case ChangeKind.TOKEN_ENDPOINT:
            return replace(user, token_endpoint=change.value)
        case ChangeKind.ADMIN:
            return replace(user, admin=change.value)
        case ChangeKind.USER_SETTINGS:
            return replace(user, settings=change.value)
        case ChangeKind.FILTERS:
            return replace(user, filters=change.value)
        case ChangeKind.OUTPUT_ADDED | ChangeKind.OUTPUT_CHANGED:
            assert (uid in user.outputs) == (change.what is ChangeKind.OUTPUT_CHANGED)
            return replace(user, outputs={**user.outputs, uid: change.value})
        case ChangeKind.OUTPUT_REMOVED:
            return replace(user, outputs={name: one for name, one in user.outputs.items() if name != uid})
        case _ if uid == "global":
            return _rule(user, change)
        case ChangeKind.CHANNEL_ADDED:
            assert user.by_uid().get(uid) is None
            return replace(user, channels=(*user.channels, ChannelConfig(uid, change.value)))
        case ChangeKind.CHANNEL_REMOVED:
            assert user.by_uid().get(uid) is not None
            return replace(user, channels=tuple(each for each in user.channels if each.uid != uid))
        case ChangeKind.REORDERED:
            there = {each.uid: each for each in user.channels}
            fixed = tuple(each for each in user.channels if each.uid == "notifications")
            assert sorted(change.value) == sorted(set(there) - {"notifications"})
            return replace(user, channels=(*fixed, *(there[uid] for uid in change.value)))
        case _:
            assert user.by_uid().get(uid) is not None
            return replace(
                user, channels=tuple(_channel(each, change) if each.uid == uid else each for each in user.channels)
            )


def _channel(channel: ChannelConfig, change: Change) -> ChannelConfig:
    value = change.value
    match change.what:
        case ChangeKind.CHANNEL_RENAMED:
            return replace(channel, name=value)
        case ChangeKind.CHANNEL_SETTINGS:
            return replace(channel, settings=value)
        case ChangeKind.FEED_ADDED:
            assert all(feed.url != value.url for feed in channel.feeds)
            return replace(channel, feeds=(*channel.feeds, value))
        case ChangeKind.FEED_REMOVED:
            assert any(feed.url == value.url for feed in channel.feeds)
            return replace(channel, feeds=tuple(feed for feed in channel.feeds if feed.url != value.url))
        case ChangeKind.FEED_RENAMED:
            assert any(feed.url == value.url for feed in channel.feeds)
            return replace(channel, feeds=tuple(value if feed.url == value.url else feed for feed in channel.feeds))
        case _:
            return _rule(channel, change)


def _rule(part: Part, change: Change) -> Part:
    mutes = change.what in (ChangeKind.MUTED, ChangeKind.UNMUTED)
    rules = set(part.mute if mutes else part.block)
    assert (change.value in rules) == (change.what in (ChangeKind.UNMUTED, ChangeKind.UNBLOCKED))
    rules ^= {change.value}
    if mutes:
        return replace(part, mute=tuple(sorted(rules)))
    return replace(part, block=tuple(sorted(rules)))
