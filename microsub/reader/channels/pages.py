"""The pages for the management of channels."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

import orjson
from starlette.datastructures import ImmutableMultiDict
from starlette.responses import Response
from starlette.routing import Route

from microsub.base.errors import InvalidRequest, NotFound
from microsub.base.texts import N_, Sentence
from microsub.base.urls import mask_credentials
from microsub.formats.wire import post_title
from microsub.model.filters import Filter, FilterPart, Searched
from microsub.model.reader import BUILT_IN, NAME, SAVED, Channel, Cursor, PageQuery, Subscription
from microsub.model.settings import POST_TYPES, Filters, OwnChannelSettings, UnreadStyle
from microsub.polling.condition import FeedCondition
from microsub.reader.reading import undo
from microsub.reader.reading.channel_list import EVERYBODYS, ChannelLink, ChannelLinks, links
from microsub.reader.reading.pages import change, reader_of
from microsub.reader.reading.places import ITEM_ID, ListPart
from microsub.timelines.follow import Followed
from microsub.timelines.pages import mark
from microsub.timelines.views import feed_name
from microsub.web.routes import form, page
from microsub.web.visit import PageSite, PageVisit

CHANNELS = "/channels"
MOST_LISTED = 100
"""Channels on a page."""
MOST_REMOVED = 20
"""Deleted channels that can be restored; the oldest ones beyond this number are erased."""
TRIED = 100
TRIED_TEXT = 20_000
"""Posts on which a filter is tried, and characters of each post's text."""
MARKED = 1000
"""Unread posts that are checked when a filter is applied to existing posts."""
PAGES_TRIED, PAGES_MARKED = 4, 40
"""Pages that these checks read at most; a page of large posts has few of them."""
MOST_WORDS = 50
"""Words or phrases in one field of a filter, since each is searched for in every new post."""


def routes(site: PageSite) -> list[Route]:
    """The routes of this module."""
    one = f"{CHANNELS}/{{uid}}"
    return [
        page(site, CHANNELS, _list),
        change(site, CHANNELS, _create, _list),
        change(site, f"{CHANNELS}/order", _order),
        change(site, f"{CHANNELS}/restore", _restore),
        page(site, one, _channel),
        change(site, one, _rename, _channel),
        change(site, f"{one}/delete", _delete),
        change(site, f"{one}/settings", _set_settings, _channel),
        page(site, f"{one}/filter", _filter),
        change(site, f"{one}/filter", _set_filter, _filter),
        change(site, f"{one}/move", _move),
        form(site, f"{one}/poll", _poll, _channel),
        change(site, f"{one}/end", _unfollow),
        change(site, f"{one}/again", _follow_again),
    ]


# --- all channels ---------------------------------------------------------------------------------------------------


async def _list(visit: PageVisit) -> Response:
    """The channels in order; deleted ones can be restored for thirty days."""
    user, services = await reader_of(visit), visit.site.services
    channels, words = await links(visit), visit.query.get("q", "").strip()
    own = [one for one in channels.named(words) if one.uid not in EVERYBODYS]
    listed = ListPart.of(own, visit.query.get("from", ""), MOST_LISTED)
    removed = await services.channels.removed_names(user)
    return visit.page(
        "channels.html",
        listed=listed,
        words=words,
        feeds=await services.channels.feed_counts(user, [one.uid for one in listed.shown]),
        removed=removed,
        deleted=visit.query.get("deleted", ""),
        channels=channels,
    )


async def _create(visit: PageVisit) -> Response:
    user, services = await reader_of(visit), visit.site.services
    most = await services.identity.quotas.most("channels", user)
    channel = await services.channels.create(user, _name(visit), visit.now, most=most)
    return visit.go(f"{CHANNELS}/{channel.uid}")


async def _order(visit: PageVisit) -> Response:
    """Set the order of all channels, or move one channel up or down."""
    user, services = await reader_of(visit), visit.site.services
    uids = [one.uid for one in (await links(visit)).own]
    known = set(uids)
    wished = [uid for uid in dict.fromkeys(visit.form.text("order").split(",")) if uid in known]
    for name, step in (("up", -1), ("down", 1)):
        if (uid := visit.form.text(name)) in known:
            wished = _moved(uids, uid, step)
    if wished:
        await services.channels.order(user, wished)
    return visit.go(CHANNELS, **{name: visit.form.text(name) for name in ("q", "from")})


def _moved(uids: Sequence[str], uid: str, step: int) -> list[str]:
    """The order after moving that channel down by `step`."""
    rest = [one for one in uids if one != uid]
    rest.insert(max(0, uids.index(uid) + step), uid)
    return rest


async def _delete(visit: PageVisit) -> Response:
    """Delete the channel; it can be restored for thirty days."""
    user, uid = await _writer(visit)
    services = visit.site.services
    await services.following.remove_channel(user, uid, visit.now)
    for oldest in list(await services.channels.removed(user))[:-MOST_REMOVED]:
        await services.following.delete_channel(user, oldest)
    return visit.go(CHANNELS, deleted=uid)


async def _restore(visit: PageVisit) -> Response:
    user, uid, services = await reader_of(visit), visit.form.text("channel"), visit.site.services
    if uid not in await services.channels.removed(user):
        raise NotFound(N_("This channel can't be restored: it doesn't exist, or its 30 days are over."))
    await services.following.restore_channel(user, uid, visit.now, await services.identity.quotas.of(user))
    return visit.go(CHANNELS)


# --- one channel ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SourceView:
    """A feed of a channel with its health; `url` is empty if it has no publisher."""

    feed: str
    url: str
    name: str
    condition: FeedCondition

    @classmethod
    def of(cls, followed: Followed, now: float) -> SourceView:
        """The facts about a follow."""
        record, follow = followed.record, followed.subscription
        url = "" if record.is_internal else mask_credentials(follow.url)
        return cls(record.id, url, feed_name(follow, record), FeedCondition.of(record, now))


MOST_SOURCES = 100
"""Feeds on one page of a channel."""


async def _channel(visit: PageVisit) -> Response:
    user, services = await reader_of(visit), visit.site.services
    channel = await _asked(visit, user)
    followed = [] if channel.uid == SAVED else await services.following.feeds(user, channel.uid)
    # In a thread, because there may be thousands of feeds.
    troubled = await asyncio.to_thread(_needing_attention, followed, visit.now)
    await services.survey.note_attention(user, channel.uid, len(troubled))
    is_narrowed = visit.query.get("show") == "attention"
    everywhere = await links(visit)
    # In a thread, because thousands of names are sorted.
    by_name = await asyncio.to_thread(_by_name, troubled if is_narrowed else followed)
    listed = ListPart.of(by_name, visit.query.get("from", ""), MOST_SOURCES)
    name = visit.query.get("ended", "")
    ended = await undo.ended_follow(services.redis, user, channel.uid, name)
    record = await services.feeds.get(ended.feed) if ended is not None else None
    moved = await _just_moved(visit, user, everywhere)
    return visit.page(
        "channel.html",
        channel=channel,
        is_built_in=channel.uid in BUILT_IN,
        listed=listed,
        sources=[SourceView.of(one, visit.now) for one in listed.shown],
        is_narrowed=is_narrowed,
        troubled=len(troubled),
        targets=[one for one in everywhere.own if one.uid != channel.uid],
        effective=await services.settings_of(user, channel.uid),
        styles=_STYLES,
        ended=EndedFollow(feed_name(ended, record), name) if ended is not None else None,
        moved=moved,
        is_done="done" in visit.query,
        asked=visit.query.get("asked", ""),
        now=visit.now,
        channels=everywhere,
    )


def _by_name(followed: Sequence[Followed]) -> list[Followed]:
    return sorted(followed, key=lambda one: feed_name(one.subscription, one.record).casefold())


def _needing_attention(followed: Sequence[Followed], now: float) -> list[Followed]:
    feeds = (one for one in followed if not one.record.is_internal)
    return [one for one in feeds if FeedCondition.of(one.record, now).needs_attention]


@dataclass(frozen=True, slots=True)
class EndedFollow:
    """A follow that was just ended, and the name of its undo record."""

    name: str
    undo: str


@dataclass(frozen=True, slots=True)
class MovedFollow:
    """A follow that was just moved, and the channel that it is in now."""

    feed: str
    name: str
    channel: ChannelLink


async def _just_moved(visit: PageVisit, user: str, everywhere: ChannelLinks) -> MovedFollow | None:
    """The follow that the address names as moved, if it is there."""
    feed, to, services = visit.query.get("moved", ""), visit.query.get("to", ""), visit.site.services
    channel = next((link for link in everywhere.own if link.uid == to), None)
    if channel is None or not ITEM_ID.fullmatch(feed):
        return None
    followed = await services.channels.subscription(user, to, feed)
    name = feed_name(followed, await services.feeds.get(feed)) if followed is not None else ""
    return MovedFollow(feed, name, channel) if followed is not None else None


async def _rename(visit: PageVisit) -> Response:
    user, uid = await _writer(visit)
    await visit.site.services.channels.rename(user, uid, _name(visit), visit.now)
    return visit.go(f"{CHANNELS}/{uid}", done="yes")


async def _move(visit: PageVisit) -> Response:
    """Move a follow to another channel; its posts move too. An undo leads to the channel that has it again."""
    user, uid = await _writer(visit)
    services, target = visit.site.services, (await links(visit)).chosen(visit.form.text("to"))
    followed = await _followed(visit, user, uid)
    if target is None:
        raise NotFound(N_("There is no such channel."))
    await services.following.move(user, target.uid, followed.url, visit.now)
    shown = target.uid if "undo" in visit.form else uid
    return _back(visit, shown, moved=followed.feed, to=target.uid)


async def _poll(visit: PageVisit) -> Response:
    """Poll a feed of the channel as soon as its host's rate limit allows."""
    user, uid = await _writer(visit)
    await _followed(visit, user, uid)
    await visit.site.services.polls.ask(user, visit.form.text("feed"), visit.now)
    return _back(visit, uid, asked=visit.form.text("feed"))


async def _unfollow(visit: PageVisit) -> Response:
    """End a follow; its unread posts are removed, and return if this is undone."""
    user, uid = await _writer(visit)
    services = visit.site.services
    followed = await _followed(visit, user, uid)
    unread = await services.reading.unread_of(user, uid, followed.feed, visit.now)
    kept = await undo.remember_follow(services.redis, user, uid, followed, unread)
    await services.following.unfollow(user, uid, followed.url, visit.now)
    return _back(visit, uid, ended=kept.id)


def _back(visit: PageVisit, uid: str, **about: str) -> Response:
    """Return to the place in the list of feeds at which the form was."""
    at, place = visit.form.text("at"), {name: visit.form.text(name) for name in ("from", "show")}
    return visit.go(f"{CHANNELS}/{uid}", fragment=f"feed-{at}" if ITEM_ID.fullmatch(at) else "", **place, **about)


async def _follow_again(visit: PageVisit) -> Response:
    user, uid = await _writer(visit)
    services, name = visit.site.services, visit.form.text("undo")
    ended = await undo.ended_follow(services.redis, user, uid, name)
    if ended is None:
        raise NotFound(N_("This can no longer be undone."))
    most = await services.identity.quotas.most("feeds", user)
    await services.following.follow(user, uid, ended.url, visit.now, ended.name, most=most)
    await undo.undo(services.redis, user, name, visit.now)
    return visit.go(f"{CHANNELS}/{uid}", fragment=f"feed-{ended.feed}", done="yes")


async def _followed(visit: PageVisit, user: str, uid: str) -> Subscription:
    """The follow that the form names."""
    feed = visit.form.text("feed")
    found = await visit.site.services.channels.subscription(user, uid, feed) if ITEM_ID.fullmatch(feed) else None
    if found is None:
        raise NotFound(N_("The channel no longer follows this feed."))
    return found


# --- settings -------------------------------------------------------------------------------------------------------


_EXPECTED = N_("invalid '{name}': found '{found}', expected {expected}")

_STYLES: Mapping[UnreadStyle, str] = {
    "count": N_("Show their number"),
    "boolean": N_("Show a mark"),
    "none": N_("Show nothing"),
}


async def _set_settings(visit: PageVisit) -> Response:
    user, uid = await _writer(visit)
    services = visit.site.services
    own = (await services.channels.get(user, uid)).settings
    most = {one.name: one.metadata["le"] for one in fields(OwnChannelSettings) if "le" in one.metadata}
    numbers: dict[str, Any] = {name: _number(visit, name, most[name]) for name in most if name in visit.form}
    changed = replace(own, unread=_style(visit), **numbers)
    await services.channels.set_settings(user, uid, changed, visit.now)
    return visit.go(f"{CHANNELS}/{uid}", done="yes")


def _style(visit: PageVisit) -> UnreadStyle | None:
    text = visit.form.text("unread")
    if text and text not in _STYLES:
        raise InvalidRequest(Sentence(_EXPECTED, name="unread", found=text[:80], expected=", ".join(_STYLES)))
    return next((style for style in _STYLES if style == text), None)


def _number(visit: PageVisit, name: str, most: int) -> int | None:
    """A number in the form; None if the field is empty, which means the default."""
    text = visit.form.text(name)
    if not text:
        return None
    if not re.fullmatch(r"[0-9]{1,9}", text, re.ASCII) or int(text) > most:
        whole = Sentence("a whole number from 0 to {most}", most=most)
        raise InvalidRequest(Sentence(_EXPECTED, name=name, found=text[:80], expected=whole))
    return int(text)


# --- filters --------------------------------------------------------------------------------------------------------


Fields = ImmutableMultiDict[str, str]
"""The fields of a filter in a form or an address."""


@dataclass(frozen=True, slots=True)
class RefusedPost:
    """A post of the channel that a filter would reject, and the matching part of the filter."""

    id: str
    title: str
    part: FilterPart


@dataclass(frozen=True, slots=True)
class FilterTrial:
    """The effect of a filter on the newest posts of the channel, of which the oldest was published at `since`."""

    tried: int
    refused: Sequence[RefusedPost]
    since: float | None


async def _filter(visit: PageVisit) -> Response:
    """The filter of a channel; a filter in the address is only tried, not stored."""
    user = await reader_of(visit)
    channel = await _asked(visit, user)
    filters = channel.settings.filters
    given: Fields = visit.form if visit.problem is not None else visit.request.query_params
    trial = None
    if "try" in given or visit.problem is not None:
        try:
            filters = _filters(given, filters)
            trial = await _tried(visit, user, channel, filters)
        except InvalidRequest as error:
            visit.problem = error
    return visit.page(
        "filter.html",
        channel=channel,
        filters=filters,
        kinds=POST_TYPES,
        trial=trial,
        is_kept=filters == channel.settings.filters,
        is_done="done" in visit.query,
        undo=await undo.find(visit.site.services.redis, user, visit.query.get("undo", "")),
        channels=await links(visit),
    )


async def _set_filter(visit: PageVisit) -> Response:
    """Store the filter, or show its trial at an address of its own, which has only the filter's fields."""
    user, uid = await _writer(visit)
    services = visit.site.services
    own: OwnChannelSettings = (await services.channels.get(user, uid)).settings
    changed = replace(own, filters=_filters(visit.form, own.filters))
    if "try" in visit.form:
        fields = [(name, value) for name in _FILTER_FIELDS for value in visit.form.getlist(name) if value]
        return visit.go(f"{CHANNELS}/{uid}/filter?{urlencode([('try', '1'), *fields])}")
    await services.channels.set_settings(user, uid, changed, visit.now)
    marked = await _mark_refused(visit, user, uid, changed.filters) if "past" in visit.form else ""
    return visit.go(f"{CHANNELS}/{uid}/filter", done="yes", undo=marked)


_FILTER_FIELDS = ("exclude_words", "include_words", "kinds_are", "kind")


def _filters(given: Fields, own: Filters) -> Filters:
    """The filters from the form; expressions stay unchanged, because only the admin sets them."""
    kinds, action = given.getlist("kind"), given.get("kinds_are", "")
    chosen = tuple(kind for kind in POST_TYPES if kind in kinds)
    return replace(
        own,
        include_types=chosen if action == "include" else (),
        exclude_types=chosen if action == "exclude" else (),
        include_words=_words(given, "include_words"),
        exclude_words=_words(given, "exclude_words"),
    )


def _words(given: Fields, name: str) -> tuple[str, ...]:
    """The words or phrases of a field, one per line."""
    found = tuple(dict.fromkeys(word for line in given.get(name, "").splitlines() if (word := " ".join(line.split()))))
    if len(found) > MOST_WORDS:
        text = N_("invalid '{name}': found {count} words, expected at most {most}")
        raise InvalidRequest(Sentence(text, name=name, count=len(found), most=MOST_WORDS))
    if longest := next((word for word in found if len(word) > 200), ""):
        short = Sentence("words of at most {most} characters", most=200)
        raise InvalidRequest(Sentence(_EXPECTED, name=name, found=f"{longest[:80]}…", expected=short))
    return found


async def _tried(visit: PageVisit, user: str, channel: Channel, filters: Filters) -> FilterTrial:
    """The result of the filter on the newest posts of the channel."""
    tried, refused, since = 0, list[RefusedPost](), None
    async for posts in _newest(visit, user, channel.uid, PageQuery(TRIED), TRIED, PAGES_TRIED):
        tried += len(posts)
        refused += await _refused(visit, user, posts, filters)
        if dates := [date for post in posts if isinstance(date := post.get("published"), str)]:
            since = datetime.fromisoformat(dates[-1]).timestamp()
    return FilterTrial(tried, refused, since)


async def _mark_refused(visit: PageVisit, user: str, uid: str, filters: Filters) -> str:
    """Mark those of the newest unread posts as read that the filter rejects; returns the undo record's name."""
    services, found = visit.site.services, list[str]()
    async for posts in _newest(visit, user, uid, PageQuery(TRIED, view="unread"), MARKED, PAGES_MARKED):
        found += [post.id for post in await _refused(visit, user, posts, filters)]
    marked = await mark(services.redis, user, uid, found, "read", visit.now)
    kept = await undo.remember(services.redis, user, {uid: marked})
    return kept.id if kept is not None else ""


async def _newest(
    visit: PageVisit, user: str, uid: str, query: PageQuery, most: int, pages: int
) -> AsyncIterator[list[dict[str, object]]]:
    """The beginnings of the newest `most` posts of a channel, in at most so many pages: large posts make more pages."""
    for _ in range(pages):
        reply = await visit.site.services.reading.page(user, uid, query._replace(limit=min(most, TRIED)), visit.now)
        async with visit.site.turns.of(user):
            posts, after = await asyncio.to_thread(_beginnings, reply)
        yield posts
        most -= len(posts)
        if not most or after is None:
            return
        query = query._replace(after=Cursor.decode(after, "after"))


def _beginnings(reply: bytes) -> tuple[list[dict[str, object]], str | None]:
    """The posts of a page, shortened, and the cursor of the next page."""
    page = orjson.loads(reply)
    return [_shortened(item) for item in page["items"]], page["paging"].get("after")


async def _refused(
    visit: PageVisit, user: str, items: Sequence[Mapping[str, object]], filters: Filters
) -> list[RefusedPost]:
    """Those of these posts (in wire form) that the filter would reject, without expressions."""
    asked = replace(filters, include_regex=None, exclude_regex=None)

    def refused() -> list[RefusedPost]:
        chosen = Filter.of(_wire(asked))
        found = ((item, chosen.refusal(Searched.of(item))) for item in items)
        return [RefusedPost(str(item["_id"]), post_title(item), part) for item, part in found if part is not None]

    async with visit.site.turns.of(user):
        return await asyncio.to_thread(refused)


def _shortened(item: Mapping[str, object]) -> dict[str, object]:
    content = item.get("content")
    text = content.get("text", "") if isinstance(content, Mapping) else ""
    return {**item, "content": {"text": text[:TRIED_TEXT]}}


def _wire(filters: Filters) -> dict[str, object]:
    names = ("include_types", "exclude_types", "include_words", "exclude_words")
    return {name: list(getattr(filters, name)) for name in names}


# --- parts of several pages -------------------------------------------------------------------------------------------


async def _asked(visit: PageVisit, user: str) -> Channel:
    uid = visit.request.path_params["uid"]
    if not NAME.match(uid):
        raise NotFound(N_("There is no such channel."))
    return await visit.site.services.channels.get(user, uid)


async def _writer(visit: PageVisit) -> tuple[str, str]:
    """The user who sent the form, and the channel in its address."""
    user = await reader_of(visit)
    return user, (await _asked(visit, user)).uid


def _name(visit: PageVisit) -> str:
    name = " ".join(visit.form.text("name").split())
    if not name:
        raise InvalidRequest(N_("enter a name for the channel"))
    return name
