"""The pages for the management of channels."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

from starlette.responses import Response
from starlette.routing import Route

from microsub.accounts import UserQuotas
from microsub.base.errors import InvalidRequest, NotFound
from microsub.base.plaintext import by_name
from microsub.base.texts import N_, Sentence
from microsub.feeds import FeedCondition, Feeds
from microsub.model.reader import BUILT_IN, NAME, RESERVED, SAVED, Channel, Subscription
from microsub.model.settings import OwnChannelSettings, SettingsOf, UnreadStyle
from microsub.polling import PollOnRequest
from microsub.reader.channel_list import ChannelLink, ChannelLinks
from microsub.reader.frame import ReaderSite
from microsub.reader.places import ITEM_ID, ListPart
from microsub.reader.reading.undo import NO_MORE, UndoRecords
from microsub.timelines import Channels, Followed, Following, ReaderViews, SignedFeeds, feed_name
from microsub.web.routes import form, page
from microsub.web.visit import PageVisit

CHANNELS = "/channels"
MOST_LISTED = 100
"""Channels on a page."""
MOST_REMOVED = 20
"""Deleted channels that can be restored; the oldest ones beyond this number are erased."""


def routes(
    reader: ReaderSite,
    channels: Channels,
    following: Following,
    feeds: Feeds,
    reading: ReaderViews,
    undo: UndoRecords,
    *,
    signed: SignedFeeds,
    quotas: UserQuotas,
    polls: PollOnRequest,
    settings_of: SettingsOf,
) -> list[Route]:
    """The routes of this module."""
    shared, one = (reader, channels), f"{CHANNELS}/{{uid}}"
    listed = partial(_list, *shared)
    shown = partial(_channel, *shared, following, feeds, undo, settings_of)
    change = reader.change
    return [
        page(reader.site, CHANNELS, listed),
        change(CHANNELS, partial(_create, *shared, quotas), listed),
        change(f"{CHANNELS}/order", partial(_order, *shared)),
        change(f"{CHANNELS}/restore", partial(_restore, *shared, following, quotas)),
        page(reader.site, one, shown),
        change(one, partial(_rename, *shared, undo), shown),
        change(f"{one}/delete", partial(_delete, *shared, following)),
        change(f"{one}/settings", partial(_set_settings, *shared), shown),
        change(f"{one}/move", partial(_move, *shared, following)),
        form(reader.site, f"{one}/poll", partial(_poll, *shared, polls), shown),
        change(f"{one}/end", partial(_unfollow, *shared, following, reading, undo, signed)),
        change(f"{one}/again", partial(_follow_again, *shared, following, undo, quotas)),
    ]


# --- all channels ---------------------------------------------------------------------------------------------------


async def _list(reader: ReaderSite, channels: Channels, visit: PageVisit) -> Response:
    """The channels in order; deleted ones can be restored for thirty days."""
    user = await reader.user(visit)
    everywhere, words = await reader.links(visit), visit.query.get("q", "").strip()
    own = [one for one in everywhere.named(words) if one.uid not in RESERVED]
    listed = ListPart.of(own, visit.query.get("from", ""), MOST_LISTED)
    removed = await channels.removed_names(user)
    return visit.page(
        "channels.html",
        listed=listed,
        words=words,
        feeds=await channels.feed_counts(user, [one.uid for one in listed.shown]),
        removed=removed,
        deleted=visit.query.get("deleted", ""),
        restored=next((one.name for one in everywhere.own if one.uid == visit.query.get("restored")), ""),
        channels=everywhere,
    )


async def _create(reader: ReaderSite, channels: Channels, quotas: UserQuotas, visit: PageVisit) -> Response:
    user = await reader.user(visit)
    channel = await channels.create(user, _name(visit), visit.now, most=await quotas.most("channels", user))
    return visit.go(f"{CHANNELS}/{channel.uid}")


async def _order(reader: ReaderSite, channels: Channels, visit: PageVisit) -> Response:
    """Set the order of all channels, or move one channel up or down."""
    user = await reader.user(visit)
    uids = [one.uid for one in (await reader.links(visit)).own]
    known = set(uids)
    wished = [uid for uid in dict.fromkeys(visit.form.text("order").split(",")) if uid in known]
    for name, step in (("up", -1), ("down", 1)):
        if (uid := visit.form.text(name)) in known:
            wished = _moved(uids, uid, step)
    if wished:
        await channels.order(user, wished)
    return visit.go(CHANNELS, **{name: visit.form.text(name) for name in ("q", "from")})


def _moved(uids: Sequence[str], uid: str, step: int) -> list[str]:
    """The order after moving that channel down by `step`."""
    rest = [one for one in uids if one != uid]
    rest.insert(max(0, uids.index(uid) + step), uid)
    return rest


async def _delete(reader: ReaderSite, channels: Channels, following: Following, visit: PageVisit) -> Response:
    """Delete the channel; it can be restored for thirty days."""
    user, uid = await writer_of(reader, channels, visit)
    await following.remove_channel(user, uid, visit.now)
    for oldest in list(await channels.removed(user))[:-MOST_REMOVED]:
        await following.delete_channel(user, oldest)
    return visit.go(CHANNELS, deleted=uid)


async def _restore(
    reader: ReaderSite, channels: Channels, following: Following, quotas: UserQuotas, visit: PageVisit
) -> Response:
    user, uid = await reader.user(visit), visit.form.text("channel")
    if uid not in await channels.removed(user):
        raise NotFound(N_("This channel can't be restored: it doesn't exist, or its 30 days are over."))
    await following.restore_channel(user, uid, visit.now, await quotas.of(user))
    return visit.go(CHANNELS, restored=uid)


# --- one channel ----------------------------------------------------------------------------------------------------


MOST_SOURCES = 100
"""Feeds on one page of a channel."""


async def _channel(
    reader: ReaderSite,
    channels: Channels,
    following: Following,
    feeds: Feeds,
    undo: UndoRecords,
    settings_of: SettingsOf,
    visit: PageVisit,
) -> Response:
    user = await reader.user(visit)
    channel = await asked_channel(channels, visit)
    followed = [] if channel.uid == SAVED else await following.feeds(user, channel.uid)
    # In a thread, because there may be thousands of feeds.
    troubled = await asyncio.to_thread(_needing_attention, followed, visit.now)
    is_narrowed = visit.query.get("show") == "attention"
    everywhere = await reader.links(visit)
    # In a thread, because thousands of names are sorted.
    by_name = await asyncio.to_thread(_by_name, troubled if is_narrowed else followed)
    listed = ListPart.of(by_name, visit.query.get("from", ""), MOST_SOURCES)
    name, again = visit.query.get("ended", ""), visit.query.get("again", "")
    ended = await undo.ended_follow(user, channel.uid, name)
    record = await feeds.get(ended.feed) if ended is not None else None
    moved = await _just_moved(channels, feeds, visit, everywhere)
    return visit.page(
        "channel.html",
        channel=channel,
        is_built_in=channel.uid in BUILT_IN,
        listed=listed,
        sources=[(one, FeedCondition.of(one.record, visit.now)) for one in listed.shown],
        is_narrowed=is_narrowed,
        troubled=len(troubled),
        targets=[one for one in everywhere.own if one.uid != channel.uid],
        effective=await settings_of(user, channel.uid),
        styles=_STYLES,
        ended=feed_name(ended, record) if ended is not None else None,
        undo=name,
        again=next((one.name for one in followed if one.record.id == again), None),
        moved=moved,
        former=await undo.former_name(user, channel, visit.query.get("renamed", "")),
        renamed=visit.query.get("renamed", ""),
        is_done="done" in visit.query,
        asked=visit.query.get("asked", ""),
        now=visit.now,
        channels=everywhere,
    )


def _by_name(followed: Sequence[Followed]) -> list[Followed]:
    return sorted(followed, key=lambda one: by_name(one.name))


def _needing_attention(followed: Sequence[Followed], now: float) -> list[Followed]:
    feeds = (one for one in followed if not one.record.is_internal)
    return [one for one in feeds if FeedCondition.of(one.record, now).needs_attention]


async def _just_moved(
    channels: Channels, feeds: Feeds, visit: PageVisit, everywhere: ChannelLinks
) -> tuple[str, str, ChannelLink] | None:
    """The follow that the address names as moved, if it is there: feed, name, and the channel that it is in now."""
    feed, to = visit.query.get("moved", ""), visit.query.get("to", "")
    channel = next((link for link in everywhere.own if link.uid == to), None)
    if channel is None or not ITEM_ID.fullmatch(feed):
        return None
    followed = await channels.subscription(visit.user, to, feed)
    return None if followed is None else (feed, feed_name(followed, await feeds.get(feed)), channel)


async def _rename(reader: ReaderSite, channels: Channels, undo: UndoRecords, visit: PageVisit) -> Response:
    """Rename a channel, and offer to undo that as long as it has this name."""
    user, channel = await reader.user(visit), await asked_channel(channels, visit)
    if undone := visit.form.text("undo"):
        name = await undo.former_name(user, channel, undone)
        if not name:
            raise InvalidRequest(NO_MORE)
    else:
        name = _name(visit)
    await channels.rename(user, channel.uid, name, visit.now)
    if name == channel.name or undone:
        return visit.go(f"{CHANNELS}/{channel.uid}", done="yes")
    kept = await undo.remember_name(user, channel, name)
    return visit.go(f"{CHANNELS}/{channel.uid}", renamed=kept.id)


async def _move(reader: ReaderSite, channels: Channels, following: Following, visit: PageVisit) -> Response:
    """Move a follow to another channel; its posts move too. An undo leads to the channel that has it again."""
    user, uid = await writer_of(reader, channels, visit)
    target = (await reader.links(visit)).chosen(visit.form.text("to"))
    followed = await _followed(channels, visit, uid)
    if target is None:
        raise NotFound(N_("There is no such channel."))
    await following.move(user, target.uid, followed.url, visit.now)
    shown = target.uid if "undo" in visit.form else uid
    return _back(visit, shown, moved=followed.feed, to=target.uid)


async def _poll(reader: ReaderSite, channels: Channels, polls: PollOnRequest, visit: PageVisit) -> Response:
    """Poll a feed of the channel as soon as its host's rate limit allows."""
    user, uid = await writer_of(reader, channels, visit)
    await _followed(channels, visit, uid)
    await polls.ask(user, visit.form.text("feed"), visit.now)
    return _back(visit, uid, asked=visit.form.text("feed"))


async def _unfollow(
    reader: ReaderSite,
    channels: Channels,
    following: Following,
    reading: ReaderViews,
    undo: UndoRecords,
    signed: SignedFeeds,
    visit: PageVisit,
) -> Response:
    """End a follow; its unread posts are removed, and return if this is undone."""
    user, uid = await writer_of(reader, channels, visit)
    followed = await _followed(channels, visit, uid)
    unread = await reading.unread_of(user, uid, followed.feed, visit.now)
    kept = await undo.remember_follow(user, uid, followed, unread)
    await signed.renew(user, followed, visit.now)
    await following.unfollow(user, uid, followed.url, visit.now)
    return _back(visit, uid, ended=kept.id)


def _back(visit: PageVisit, uid: str, at: str = "", **about: str) -> Response:
    """Return to the place in the list of feeds at which the form was, or to the feed `at` there."""
    at, place = at or visit.form.text("at"), {name: visit.form.text(name) for name in ("from", "show")}
    return visit.go(f"{CHANNELS}/{uid}", fragment=f"feed-{at}" if ITEM_ID.fullmatch(at) else "", **place, **about)


async def _follow_again(
    reader: ReaderSite,
    channels: Channels,
    following: Following,
    undo: UndoRecords,
    quotas: UserQuotas,
    visit: PageVisit,
) -> Response:
    user, uid = await writer_of(reader, channels, visit)
    name = visit.form.text("undo")
    ended = await undo.ended_follow(user, uid, name)
    if ended is None:
        raise NotFound(N_("This can no longer be undone."))
    most = await quotas.most("feeds", user)
    await following.follow_again(user, uid, ended, visit.now, most=most)
    await undo.undo(user, name, visit.now)
    return _back(visit, uid, ended.feed, again=ended.feed)


async def _followed(channels: Channels, visit: PageVisit, uid: str) -> Subscription:
    """The follow that the form names."""
    feed = visit.form.text("feed")
    found = await channels.subscription(visit.user, uid, feed) if ITEM_ID.fullmatch(feed) else None
    if found is None:
        raise NotFound(N_("The channel no longer follows this feed."))
    return found


# --- settings -------------------------------------------------------------------------------------------------------


EXPECTED = N_("invalid '{name}': found '{found}', expected {expected}")

_STYLES: Mapping[UnreadStyle, str] = {
    "count": N_("Show their number"),
    "boolean": N_("Show a mark"),
    "none": N_("Show nothing"),
}


async def _set_settings(reader: ReaderSite, channels: Channels, visit: PageVisit) -> Response:
    user, uid = await writer_of(reader, channels, visit)
    own = (await channels.get(user, uid)).settings
    most = {one.name: one.metadata["le"] for one in fields(OwnChannelSettings) if "le" in one.metadata}
    numbers: dict[str, Any] = {name: number_in(visit, name, most[name]) for name in most if name in visit.form}
    changed = replace(own, unread=_style(visit), **numbers)
    await channels.set_settings(user, uid, changed, visit.now)
    return visit.go(f"{CHANNELS}/{uid}", done="yes")


def _style(visit: PageVisit) -> UnreadStyle | None:
    text = visit.form.text("unread")
    if text and text not in _STYLES:
        raise InvalidRequest(Sentence(EXPECTED, name="unread", found=text[:80], expected=", ".join(_STYLES)))
    return next((style for style in _STYLES if style == text), None)


def number_in(visit: PageVisit, name: str, most: int) -> int | None:
    """A number in the form; None if the field is empty, which means the default."""
    text = visit.form.text(name)
    if not text:
        return None
    if not re.fullmatch(r"[0-9]{1,9}", text, re.ASCII) or int(text) > most:
        whole = Sentence("a whole number from 0 to {most}", most=most)
        raise InvalidRequest(Sentence(EXPECTED, name=name, found=text[:80], expected=whole))
    return int(text)


# --- parts of several pages -------------------------------------------------------------------------------------------


async def asked_channel(channels: Channels, visit: PageVisit) -> Channel:
    """The signed-in user's channel that the address names. Raises NotFound."""
    uid = visit.request.path_params["uid"]
    if not NAME.match(uid):
        raise NotFound(N_("There is no such channel."))
    return await channels.get(visit.user, uid)


async def writer_of(reader: ReaderSite, channels: Channels, visit: PageVisit) -> tuple[str, str]:
    """The user who sent the form, and the channel in its address. Raises NotFound."""
    user = await reader.user(visit)
    return user, (await asked_channel(channels, visit)).uid


def _name(visit: PageVisit) -> str:
    name = " ".join(visit.form.text("name").split())
    if not name:
        raise InvalidRequest(N_("enter a name for the channel"))
    return name
