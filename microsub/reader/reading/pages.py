"""The pages for reading: channels, timelines, searches, and single posts."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import orjson
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from microsub.base.clock import WEEK
from microsub.base.errors import NotFound, RequestError, TooManyRequests
from microsub.base.rate_limits import Slot, public_network
from microsub.base.texts import Sentence
from microsub.feeds import FeedCondition, FeedRecord, Feeds
from microsub.model.reader import GLOBAL, NAME, SAVED, Cursor, PageQuery
from microsub.posts import PIECE
from microsub.reader.answering.answers import Answers
from microsub.reader.channel_list import ChannelLinks
from microsub.reader.frame import ReaderSite
from microsub.reader.places import CHANNEL, FEED, ITEM_ID, LAST_READ, PAGE_SIZE, SEARCH, ListPart, TimelinePlace
from microsub.reader.reading.hits import NO_HITS, SearchHits
from microsub.reader.reading.images import PATH as IMAGE
from microsub.reader.reading.images import Images
from microsub.reader.reading.own_feeds import OwnFeeds
from microsub.reader.reading.post_page import answering_state
from microsub.reader.reading.posts import PostView, PostViews, grouped, in_order
from microsub.reader.reading.undo import UndoRecords
from microsub.redis.protocol import Redis
from microsub.search import PostSearch
from microsub.timelines import (
    EVENTS_IN_ALL,
    EVENTS_OF_NETWORK,
    EVENTS_OF_USER,
    READ_EVERYWHERE,
    ChannelDisplay,
    ChannelDisplays,
    Channels,
    Listeners,
    ReaderViews,
    open_events,
)
from microsub.web.display import YES_OR_NO, Display
from microsub.web.headers import page_headers
from microsub.web.pages import LANGUAGES, N_
from microsub.web.routes import SentResponse, form, page, slow_page
from microsub.web.visit import PageVisit

DISPLAY = "/display"
NEWS, LIVE = "/news", "/live"
_LIVE_SECONDS, _PING_SECONDS, _REST_SECONDS = 300.0, 15.0, 1.0
Lack = Literal["", "unread", "posts", "feeds"]
"""Reasons for an empty page: no unread posts, no posts, no feeds."""
MOST_FOUND = 500
"""Channels on one page of the complete list."""
_ENDED = PIECE // 4
"""Bytes of a page with fewer posts than it may have that may have ended because the next one is large."""
MOST_ASKED = 300
"""Posts of a page whose states its script may ask for."""
_FURTHER_PIECES = 9
"""Most pieces of a channel, of a thousand posts each, in which posts of a feed are looked for after an empty one."""
_MOST_NEW = 100
"""Maximum number counted of posts that arrived since a page was made."""


def routes(reader: ReaderSite, redis: Redis, listeners: Listeners, images: Images) -> list[Route]:
    """The routes of this module, but for those of `TimelinePages`."""
    site, display = reader.site, partial(_display, reader)
    return [
        page(site, CHANNEL, partial(_find, reader)),
        page(site, LIVE, partial(_live, reader, redis, listeners)),
        slow_page(site, f"{IMAGE}/{{signature}}/{{address}}", partial(_image, images)),
        page(site, DISPLAY, display),
        form(site, DISPLAY, partial(_set_display, reader), display),
    ]


class TimelinePages:
    """The pages with posts: timelines and searches. `search` is None if search is off."""

    def __init__(
        self,
        reader: ReaderSite,
        reading: ReaderViews,
        views: PostViews,
        search: PostSearch | None,
        channels: Channels,
        answers: Answers,
        undo: UndoRecords,
        displays: ChannelDisplays,
        own_feeds: OwnFeeds,
        feeds: Feeds,
    ) -> None:
        self._reader = reader
        self._own_feeds = own_feeds
        self._feeds = feeds
        self._displays = displays
        self._reading = reading
        self._views = views
        self._search = search
        self._channels = channels
        self._answers = answers
        self._undo = undo

    def routes(self) -> list[Route]:
        """The routes of these pages, without the home page."""
        site = self._reader.site
        return [
            page(site, f"{CHANNEL}/{{uid}}", self._channel),
            page(site, f"{FEED}/{{feed}}", self._feed),
            page(site, "/saved", self._saved),
            page(site, LAST_READ, self._last_read),
            page(site, SEARCH, self._searched),
            page(site, NEWS, self._news),
        ]

    async def everything(self, visit: PageVisit) -> Response:
        """All unread posts, and on a phone the list of channels."""
        return await self._timeline(visit, TimelinePlace.of(GLOBAL, visit.query), is_home=True)

    async def _channel(self, visit: PageVisit) -> Response:
        return await self._timeline(visit, TimelinePlace.of(visit.request.path_params["uid"], visit.query))

    async def _feed(self, visit: PageVisit) -> Response:
        """The posts of a feed in a channel, or in all of them."""
        given = {**visit.query, "source": visit.request.path_params["feed"]}
        return await self._timeline(visit, TimelinePlace.of(visit.query.get("channel", GLOBAL), given))

    async def _saved(self, visit: PageVisit) -> Response:
        return await self._timeline(visit, TimelinePlace.of(SAVED, visit.query))

    async def _last_read(self, visit: PageVisit) -> Response:
        """The posts that the user has read last, however old they are."""
        user, place = await self._reader.user(visit), TimelinePlace(GLOBAL, "all", last_read=True)
        reply, links, display = await asyncio.gather(
            self._reading.last_read(user), self._reader.links(visit), self._displays.of(user, GLOBAL)
        )
        return await self._posts_page(visit, place, orjson.loads(reply), links, replace(display, group="none"))

    async def _timeline(self, visit: PageVisit, place: TimelinePlace, *, is_home: bool = False) -> Response:
        user = await self._reader.user(visit)
        asked, assumed, display = place, None, self._displays.last(user, place.uid, place.source)
        while display != assumed:  # once, unless another process has changed it
            assumed = display
            is_reversed = (display.order or visit.display.order) == "oldest" and place.uid != SAVED
            size = PAGE_SIZE if "whole" in visit.query else display.page_size
            place = replace(asked, oldest_first=is_reversed, size=size).since(visit.query.get("at", ""))
            page, (channels, newest, display, records) = await self._reading.page_beside(
                user, place.uid, place.page_query(), visit.now, partial(self._beside, visit, place)
            )
        reply, query = orjson.loads(page), place.page_query()
        for _ in range(_FURTHER_PIECES):
            onward = _onward(query, reply)
            if onward is None:
                break
            # The feed's posts are behind many of other feeds; an empty page would hide those that its count includes.
            page, query = await self._reading.page(user, place.uid, onward, visit.now), onward
            reply = orjson.loads(page)
        source, is_empty = reply.get("source", {}), not reply["items"] and "_unavailable" not in reply
        if is_empty and place.source and place == place.at_start and "url" not in source:
            raise NotFound(N_("You don’t follow this feed."))
        if is_empty and "at" in visit.query:
            return visit.go(asked.start)  # nothing is unread from that moment on
        return await self._posts_page(
            visit,
            place,
            reply,
            channels,
            display,
            newest=newest if _is_inside(place) else str(reply["paging"].get("before", "")),
            source=source,
            record=records.get(place.source) if "url" in source else None,
            home=is_home,
            lack=await self._lack(visit, user, place) if is_empty else "",
            full=len(reply["items"]) + len(reply.get("_unavailable", ())) == place.size
            or len(page) > _ENDED
            or _is_cut_short(reply),
        )

    async def _beside(
        self, visit: PageVisit, place: TimelinePlace
    ) -> tuple[ChannelLinks, str, ChannelDisplay, Mapping[str, FeedRecord]]:
        user = visit.require_session().user
        return await asyncio.gather(
            self._reader.links(visit),
            self._newest(user, place, visit.now),
            self._displays.of(user, place.uid, place.source),
            self._feeds.within_reach([place.source] if place.source else []),
        )

    async def _searched(self, visit: PageVisit) -> Response:
        """The posts that match, and the user's feeds that are called so."""
        user, place = await self._reader.user(visit), TimelinePlace.searched(visit.query)
        links, display = await asyncio.gather(self._reader.links(visit), self._displays.of(user, place.uid))
        place = replace(place, size=display.page_size)
        hits = SearchHits.of(place.words or "", visit.now)
        reply: dict[str, Any] = {"items": [], "paging": {}}
        if self._search is None:
            visit.problem = NotFound(visit.translate(N_("Search is disabled on this server.")))
        elif place.words:
            try:
                reply = orjson.loads(await self._search.page(user, place.uid, place.search_request(), visit.now))
            except RequestError as error:
                visit.problem = error
        words = [word for phrase in hits.phrases for word in phrase.words] if place == place.at_start else []
        results = {
            "found": reply.get("_found"),
            "feeds": await self._own_feeds.called(user, links, words) if words else (),
            "kept": next((one for one in links.searches if one.is_at(place)), None),
        }
        return await self._posts_page(visit, place, reply, links, replace(display, group="none"), hits, search=results)

    async def _posts_page(
        self,
        visit: PageVisit,
        place: TimelinePlace,
        reply: dict[str, Any],
        channels: ChannelLinks,
        display: ChannelDisplay,
        hits: SearchHits = NO_HITS,
        *,
        search: Mapping[str, Any] | None = None,
        newest: str = "",
        source: dict[str, str] | None = None,
        record: FeedRecord | None = None,
        home: bool = False,
        lack: Lack = "",
        full: bool = False,
    ) -> Response:
        named = next((link.name for link in channels if link.uid == place.uid), place.uid)
        is_whole, paging = "whole" in visit.query, reply["paging"]
        display = replace(display, view="full") if is_whole else display
        posts = await self._views.of(visit, reply["items"], "whole" if is_whole else display.view, hits)
        previous, following = _pages_around(place, paging, full=full)
        if place.oldest_first:
            posts.reverse()
        away = reply.get("_unavailable", ())
        said, undo = await self._undo.said(visit)
        is_start = place == place.at_start and place.words is None and not place.last_read
        return visit.page(
            "timeline.html" if search is None else "search.html",
            media=("https:", "http:") if any(post.sound for post in posts) else (),
            search=search,
            place=place,
            look=display,
            now=visit.now,
            posts=posts,
            missing=-(-reply.get("_behind", 0) // 60),
            listed=grouped(in_order(posts, away, oldest_first=place.oldest_first), display.group),
            channels=channels,
            name=visit.translate(N_("Recently read")) if place.last_read else (source or {}).get("name") or named,
            source=source,
            condition=FeedCondition.of(record, visit.now) if record is not None else None,
            home=home,
            kept=is_whole,
            lack=lack,
            following=following,
            previous=previous,
            top=paging.get("before", ""),
            # With the oldest posts first, new ones are at the end and can't be announced above the list.
            announces=is_start and not (place.oldest_first and posts),
            news=visit.site.pages.href(NEWS) if place.words is None else "",
            live=visit.site.pages.href(LIVE),
            newest=newest,
            is_unread=_may_be_unread(place, channels, posts, is_whole=not (previous or following)),
            answering=await answering_state(self._answers, visit),
            said=said,
            undo=undo,
            back=place.path,
        )

    async def _lack(self, visit: PageVisit, user: str, place: TimelinePlace) -> Lack:
        """The reason for an empty page."""
        everything = PageQuery(limit=1, source=place.source or None)
        if (await self._reading.rows(user, place.uid, everything, visit.now)).ids:
            return "unread"
        return "posts" if await self._channels.follows_anything(user) else "feeds"

    async def _newest(self, user: str, place: TimelinePlace, now: float) -> str:
        """The cursor of the newest post that "mark all" on a page inside includes; empty for none."""
        if not _is_inside(place):
            return ""
        rows = await self._reading.rows(user, place.uid, PageQuery(limit=1, view="unread"), now)
        newest = rows.first or rows.resume
        return newest.encode() if newest is not None else ""

    async def _news(self, visit: PageVisit) -> Response:
        """The unread counts, the signs beside channels, the states of posts that a page lists, and how many have
        arrived `before` its first one.

        For its script: others of the user's pages and devices may have marked and saved them.
        """
        user = await self._reader.user(visit)
        rows, count, links = await asyncio.gather(
            self._reading.rows_in(user, _listed(visit.query.get("posts", ""))),
            self._arrived(user, visit),
            self._reader.links(visit),
        )
        text = visit.translate_count(N_("%(num)s new post"), N_("%(num)s new posts"), count)
        if count > _MOST_NEW:
            text = visit.translate(Sentence(N_("More than {num} new posts"), num=_MOST_NEW))
        states = {id_: row.is_read + 2 * row.is_saved for id_, row in rows.items()}
        sign = visit.site.pages.macro("links.html", "channel_sign", visit.language)
        signs = {link.uid: sign(link) for link in links if link.attention}
        return data_reply({"new": count, "text": text, "unread": links.unread, "signs": signs, "states": states})

    async def _arrived(self, user: str, visit: PageVisit) -> int:
        """How many posts have arrived before the first one of a page; 0 for pages that announce none."""
        if "before" not in visit.query:
            return 0
        place = TimelinePlace.of(visit.query.get("channel", ""), visit.query)
        return len((await self._reading.rows(user, place.uid, place.page_query(_MOST_NEW + 1), visit.now)).ids)


def _may_be_unread(place: TimelinePlace, channels: ChannelLinks, posts: Sequence[PostView], *, is_whole: bool) -> bool:
    """Whether a post of the place is unread, or may be on further pages of a feed; of a search, one of the page."""
    count = next((link.count for link in channels if link.uid == place.uid), 0)
    is_known = place.words is not None or (bool(place.source) and is_whole)
    return any(not post.is_read for post in posts) or (count > 0 and not is_known)


def _listed(given: str) -> dict[str, list[str]]:
    """The ids of a page's posts, by the channel that lists them, from a JSON object with `id id …` for each."""
    listed = defaultdict[str, list[str]](list)
    with suppress(orjson.JSONDecodeError, AttributeError):
        pairs = [
            (uid, id_) for uid, ids in orjson.loads(given).items() for id_ in ids.split() if ITEM_ID.fullmatch(id_)
        ]
        for uid, id_ in pairs[:MOST_ASKED]:
            if uid != GLOBAL and NAME.match(uid):
                listed[uid].append(id_)
    return listed


def _is_cut_short(reply: dict[str, Any]) -> bool:
    """Whether reading stopped among posts that All hides, so that the page of newer ones begins at none of these."""
    before = reply["paging"].get("before")
    return bool(before) and Cursor.decode(before, "before").item not in {post["_id"] for post in reply["items"]}


def _onward(query: PageQuery, reply: Mapping[str, Any]) -> PageQuery | None:
    """The query for what follows an empty piece of one feed's posts; None if there is a post, or nothing follows."""
    direction: Literal["before", "after"] = "after" if query.before is None else "before"
    cursor = reply["paging"].get(direction)
    if query.source is None or not cursor or reply["items"] or "_unavailable" in reply:
        return None
    found = Cursor.decode(cursor, direction)
    return query._replace(after=found) if direction == "after" else query._replace(before=found)


def _is_inside(place: TimelinePlace) -> bool:
    """Whether the page may not begin with the newest post."""
    return bool(place.before or place.after or place.oldest_first)


def _pages_around(place: TimelinePlace, paging: Mapping[str, str], *, full: bool) -> tuple[str, str]:
    """The addresses of the previous and next page, in reading order; empty for none.

    After a `full` page, there may be more in its direction.
    """
    is_inside = bool(place.before or place.after)
    newer = place.newer(paging["before"]) if "before" in paging else ""
    older = place.older(paging["after"]) if "after" in paging else ""
    if not place.oldest_first:
        return newer if is_inside else "", older
    goes_on = full or place.after or place.source
    return older if is_inside else "", newer if goes_on else ""


# --- further pages ------------------------------------------------------------------------------------------------


async def _find(reader: ReaderSite, visit: PageVisit) -> Response:
    """All channels, or those whose names contain the words; a form asks to `open` the only one."""
    await reader.user(visit)
    channels, words = await reader.links(visit), visit.query.get("q", "").strip()
    listed = ListPart.of(channels.named(words), visit.query.get("from", ""), MOST_FOUND)
    if words and listed.count == 1 and "open" in visit.query:
        return visit.go(TimelinePlace.of(listed.shown[0].uid, {}).start)
    return visit.page("find.html", words=words, listed=listed, channels=channels)


async def _live(reader: ReaderSite, redis: Redis, listeners: Listeners, visit: PageVisit) -> Response:
    """Notify the page's script when something changes in the user's channels; the script then requests the changes."""
    user = await reader.user(visit)
    await open_events(redis, user)
    places = [(EVENTS_OF_USER, user), (EVENTS_IN_ALL, "")]
    if network := public_network(visit.address):
        places.append((EVENTS_OF_NETWORK, network))
    if not all(listeners.limits.has_room(*one) for one in places):
        raise TooManyRequests(
            N_("Too many open pages are waiting for new posts. They check once a minute instead."), 60
        )
    headers = {**page_headers(), "content-type": "text/event-stream", "x-accel-buffering": "no"}
    return StreamingResponse(_changes(listeners, user, places), headers=headers)


async def _changes(listeners: Listeners, user: str, slots: Sequence[Slot]) -> AsyncIterator[bytes]:
    """A line for each change, for some minutes; then the browser connects again with its session."""
    leave, until = listeners.limits.take(slots), time.monotonic() + _LIVE_SECONDS
    news = listeners.news(user)
    try:
        yield b": waiting\n\n"
        while not listeners.stopped and time.monotonic() < until:
            await asyncio.wait([news], timeout=_PING_SECONDS)
            changed = news.done()
            if changed:  # changes during the reply are announced afterwards
                news = listeners.news(user)
            yield b"data: changed\n\n" if changed else b": waiting\n\n"
            await asyncio.sleep(_REST_SECONDS)
    finally:
        listeners.forget(user, news)
        leave()


async def _image(images: Images, visit: PageVisit) -> Response:
    user, asked = visit.require_session().user, visit.request.path_params
    body, kind, leave = await images.fetch(user, asked["signature"], asked["address"])
    headers = {
        **{"content-type": kind, "cache-control": f"private, max-age={WEEK}, immutable"},
        **{"x-content-type-options": "nosniff", "content-security-policy": "default-src 'none'; sandbox"},
        **{"cross-origin-resource-policy": "same-origin", "referrer-policy": "no-referrer"},
    }
    return SentResponse(Response(body, headers=headers), leave)


async def _display(reader: ReaderSite, visit: PageVisit) -> Response:
    channels = await reader.links(visit) if visit.session is not None else None
    return visit.page("display.html", languages=LANGUAGES, is_done="done" in visit.query, channels=channels)


async def _set_display(reader: ReaderSite, visit: PageVisit) -> Response:
    """Keep the choices with the account, and in the browser for pages before the sign-in."""
    chosen = Display(speed=visit.display.speed).changed(visit.form).stored()
    if visit.session is not None:
        everywhere = visit.form.text(READ_EVERYWHERE)
        reading = {READ_EVERYWHERE: everywhere} if everywhere in YES_OR_NO else {}
        await reader.keep(visit.session.user, {"display": chosen, **reading})
    visit.keep_cookie("display", chosen)
    return visit.go(DISPLAY, done="yes")


def data_reply(value: object) -> Response:
    """A reply to a script of our pages."""
    return Response(orjson.dumps(value), headers={**page_headers(), "content-type": "application/json"})
