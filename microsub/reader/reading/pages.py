"""The pages for reading: channels, timelines, searches, and single posts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import orjson
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from microsub.base.clock import WEEK
from microsub.base.errors import NotFound, RequestError, StoreUnavailable, TooManyRequests
from microsub.base.rate_limits import Slot, public_network
from microsub.identity.pages.visits import has_hosted_profile
from microsub.model.reader import GLOBAL, SAVED, PageQuery, PageRows
from microsub.posts.items import PIECE
from microsub.reader.reading.channel_list import links
from microsub.reader.reading.images import PATH as IMAGE
from microsub.reader.reading.places import CHANNEL, ITEM_ID, PAGE_SIZE, POST, SEARCH, ListPart, TimelinePlace
from microsub.reader.reading.posts import PLAYED, PostForms, PostView, UnavailablePost, in_order
from microsub.reader.reading.undo import UndoRecords
from microsub.timelines.pages import shown
from microsub.timelines.sync.live_events import EVENTS_IN_ALL, EVENTS_OF_NETWORK, EVENTS_OF_USER, Listeners, open_events
from microsub.timelines.views import feed_name
from microsub.web.display import Display
from microsub.web.headers import page_headers
from microsub.web.pages import LANGUAGES, N_
from microsub.web.routes import Handler, SentResponse, form, page, slow_page
from microsub.web.visit import PageSite, PageVisit

DISPLAY = "/display"
NEWS, LIVE = "/news", "/live"
_LIVE_SECONDS, _PING_SECONDS, _REST_SECONDS = 300.0, 15.0, 1.0
Lack = Literal["", "unread", "posts", "feeds"]
"""Reasons for an empty page: no unread posts, no posts, no feeds."""
MOST_FOUND = 500
"""Channels on one page of the complete list."""
_ENDED = PIECE // 4
"""Bytes of a page with fewer posts than it may have that may have ended because the next one is large."""
_MOST_NEW = 100
"""Maximum number counted of posts that arrived since a page was made."""


def routes(site: PageSite) -> list[Route]:
    """The routes of this module."""
    return [
        page(site, CHANNEL, _find),
        page(site, f"{CHANNEL}/{{uid}}", _channel),
        page(site, "/saved", _saved),
        page(site, SEARCH, _search),
        page(site, f"{POST}/{{id}}", post_page),
        page(site, NEWS, _news),
        page(site, LIVE, _live),
        slow_page(site, f"{IMAGE}/{{signature}}/{{address}}", _image),
        page(site, DISPLAY, _display),
        form(site, DISPLAY, _set_display, _display),
    ]


MUTED_FOR = {"7": N_("for a week"), "30": N_("for 30 days"), "": N_("forever")}
"""Durations of a mute in days, as forms have them."""


async def everything(visit: PageVisit) -> Response:
    """All unread posts, and on a phone the list of channels."""
    return await _timeline(visit, TimelinePlace.of(GLOBAL, visit.query), is_home=True)


async def _channel(visit: PageVisit) -> Response:
    return await _timeline(visit, TimelinePlace.of(visit.request.path_params["uid"], visit.query))


async def _find(visit: PageVisit) -> Response:
    """All channels, or those whose names contain the words."""
    await reader_of(visit)
    channels, words = await links(visit), visit.query.get("q", "").strip()
    listed = ListPart.of(channels.named(words), visit.query.get("from", ""), MOST_FOUND)
    return visit.page("find.html", words=words, listed=listed, channels=channels)


async def _saved(visit: PageVisit) -> Response:
    return await _timeline(visit, TimelinePlace.of(SAVED, visit.query))


async def _timeline(visit: PageVisit, place: TimelinePlace, *, is_home: bool = False) -> Response:
    user = await reader_of(visit)
    if visit.display.order == "oldest" and place.uid != SAVED:
        place = replace(place, oldest_first=True)
    page = await visit.site.services.reading.page(user, place.uid, place.page_query(), visit.now)
    reply = orjson.loads(page)
    source = reply.get("source", {})
    return await _posts_page(
        visit,
        place,
        reply,
        newest=await _newest(visit, place, reply),
        source=source,
        home=is_home,
        lack="" if reply["items"] or "_unavailable" in reply else await _lack(visit, user, place),
        full=len(reply["items"]) + len(reply.get("_unavailable", ())) == PAGE_SIZE or len(page) > _ENDED,
    )


async def _search(visit: PageVisit) -> Response:
    user, place, search = await reader_of(visit), TimelinePlace.searched(visit.query), visit.site.services.post_search
    reply: dict[str, Any] = {"items": [], "paging": {}}
    if search is None:
        visit.problem = NotFound(visit.translate(N_("Search is disabled on this server.")))
    elif place.words:
        try:
            reply = orjson.loads(await search.page(user, place.uid, place.search_request(), visit.now))
        except RequestError as error:
            visit.problem = error
    return await _posts_page(visit, place, reply)


async def _posts_page(
    visit: PageVisit,
    place: TimelinePlace,
    reply: dict[str, Any],
    *,
    newest: str = "",
    source: dict[str, str] | None = None,
    home: bool = False,
    lack: Lack = "",
    full: bool = False,
) -> Response:
    user = visit.require_session().user
    channels = await links(visit)
    named = next((link.name for link in channels if link.uid == place.uid), place.uid)
    paging, posts = reply["paging"], await views(visit, reply["items"])
    previous, following = _pages_around(place, paging, full=full)
    if place.oldest_first:
        posts.reverse()
    away = [UnavailablePost.of(item) for item in reply.get("_unavailable", ())]
    is_start = place == place.at_start and place.words is None
    return visit.page(
        "timeline.html",
        place=place,
        posts=posts,
        missing=-(-reply.get("_behind", 0) // 60),
        listed=in_order(posts, away, oldest_first=place.oldest_first),
        channels=channels,
        name=(source or {}).get("name") or named,
        source=source,
        home=home,
        lack=lack,
        following=following,
        previous=previous,
        top=paging.get("before", ""),
        # With the oldest posts first, new ones are at the end and can't be announced above the list.
        news=visit.site.pages.href(NEWS) if is_start and not (place.oldest_first and posts) else "",
        live=visit.site.pages.href(LIVE),
        newest=newest,
        answering=await _answering(visit),
        undo=await UndoRecords(visit.site.services.redis).find(user, visit.query.get("undo", "")),
        back=place.path,
    )


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


async def _lack(visit: PageVisit, user: str, place: TimelinePlace) -> Lack:
    """The reason for an empty page."""
    services = visit.site.services
    everything = PageQuery(limit=1, source=place.source or None)
    if (await services.reading.rows(user, place.uid, everything, visit.now)).ids:
        return "unread"
    return "posts" if await services.channels.follows_anything(user) else "feeds"


async def post_page(visit: PageVisit) -> Response:
    """One complete post, in any of the user's channels; with the problem of an answer to it."""
    user, post = await reader_of(visit), await shown_post(visit)
    return visit.page(
        "post.html",
        # Publishers' media redirect to hosts that aren't known in advance; nothing is loaded before the user plays it.
        media=("https:", "http:") if any(file.kind in PLAYED for file in post.files) else (),
        post=post,
        place=TimelinePlace.of(post.channel, {}),
        channels=await links(visit),
        also=await _also_in(visit, user, post.id),
        outputs=await visit.site.services.outputs.all_of(user),
        times=MUTED_FOR,
        answering=await _answering(visit),
        answered=await visit.site.services.answers.published(user, visit.query.get("answered", "")),
        written=visit.form.get("content", ""),
    )


async def shown_post(visit: PageVisit) -> PostView:
    """The post in the page's address. Raises NotFound."""
    user, id_ = visit.require_session().user, visit.request.path_params["id"]
    services = visit.site.services
    found = await shown(services.redis, user, GLOBAL, [id_]) if ITEM_ID.fullmatch(id_) else None
    if found is None or id_ not in found.rows:
        raise NotFound(N_("This post doesn't exist, or is no longer in your channels."))
    rows = PageRows.of([found.rows[id_]], older=False, names=found.names)
    data = await services.reading.data(user, rows.ids)
    reply = orjson.loads(services.reading.spliced(rows, data, b"{}"))
    if "_unavailable" in reply:
        raise StoreUnavailable(f"the master of the post {id_} is away")
    items = reply["items"]
    if not items:
        raise NotFound(N_("This post doesn't exist, or is no longer in your channels."))
    (post,) = await views(visit, items, whole=True)
    return post


async def _answering(visit: PageVisit) -> Literal["ready", "possible", ""]:
    """Whether this browser may answer from the user's site, or could be allowed to because the user has a site."""
    user, answers = visit.require_session().user, visit.site.services.answers
    if await answers.access(user, visit.posting_secret, visit.now) is not None:
        return "ready"
    return "" if has_hosted_profile(visit) else "possible"


async def _also_in(visit: PageVisit, user: str, id_: str) -> list[str]:
    """The names of other feeds with the post that the user follows."""
    services = visit.site.services
    carrying = {one.feed for item in await services.items.timeline_items([id_]) for one in item.duplicates}
    if not carrying:
        return []
    followed = {feed: one for feed, one in (await services.channels.followed_feeds(user)).items() if feed in carrying}
    records = await services.feeds.get_many(followed)
    return sorted(feed_name(one, records.get(feed)) for feed, one in followed.items())


async def _news(visit: PageVisit) -> Response:
    """The number of posts that arrived since the page was made, and the unread counts, for its script."""
    user, place = await reader_of(visit), TimelinePlace.of(visit.query.get("channel", ""), visit.query)
    found = await visit.site.services.reading.rows(user, place.uid, place.page_query(_MOST_NEW), visit.now)
    count = len(found.ids)
    text = visit.translate_count(N_("%(num)s new post"), N_("%(num)s new posts"), count)
    return data_reply({"new": count, "text": text, "unread": (await links(visit)).unread})


async def _live(visit: PageVisit) -> Response:
    """Notify the page's script when something changes in the user's channels; the script then requests the changes."""
    user, services = await reader_of(visit), visit.site.services
    await open_events(services.redis, user)
    places = [(EVENTS_OF_USER, user), (EVENTS_IN_ALL, "")]
    if network := public_network(visit.address):
        places.append((EVENTS_OF_NETWORK, network))
    if not all(services.listeners.limits.has_room(*one) for one in places):
        raise TooManyRequests(
            N_("Too many open pages are waiting for new posts. They check once a minute instead."), 60
        )
    headers = {**page_headers(), "content-type": "text/event-stream", "x-accel-buffering": "no"}
    return StreamingResponse(_changes(services.listeners, user, places), headers=headers)


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


async def _image(visit: PageVisit) -> Response:
    user, asked = visit.require_session().user, visit.request.path_params
    found = await visit.site.services.images.fetch(user, asked["signature"], asked["address"])
    headers = {
        **{"content-type": found.content_type, "cache-control": f"private, max-age={WEEK}, immutable"},
        **{"x-content-type-options": "nosniff", "content-security-policy": "default-src 'none'; sandbox"},
        **{"cross-origin-resource-policy": "same-origin", "referrer-policy": "no-referrer"},
    }
    return SentResponse(Response(found.body, headers=headers), found.leave)


async def _display(visit: PageVisit) -> Response:
    channels = await links(visit) if visit.session is not None else None
    return visit.page("display.html", languages=LANGUAGES, is_done="done" in visit.query, channels=channels)


async def _set_display(visit: PageVisit) -> Response:
    visit.keep_display(Display.of(visit.form))
    return visit.go(DISPLAY, done="yes")


# --- parts of several pages -------------------------------------------------------------------------------------------


async def reader_of(visit: PageVisit) -> str:
    """The signed-in user; counts one request. Raises SignInNeeded and TooManyRequests."""
    user = visit.require_session().user
    await visit.site.identity.quotas.count(user, visit.now)
    return user


def change(site: PageSite, path: str, handler: Handler, again: Handler | None = None) -> Route:
    """A form that changes data declared in backend.json, or the content of the hub's topics."""

    async def handle(visit: PageVisit) -> Response:
        services = visit.site.services
        async with visit.turn():
            response = await handler(visit)
        services.changed()
        await services.topics_changed(visit.require_session().user, visit.now)
        return response

    return form(site, path, handle, again)


async def views(visit: PageVisit, items: Sequence[dict[str, Any]], *, whole: bool = False) -> list[PostView]:
    """Items in wire form as pages show them."""
    services, user = visit.site.services, visit.require_session().user
    records = await services.feeds.within_reach({item["_source"] for item in items if "_source" in item})
    address = await services.images.addresses(user)

    def image(url: str) -> str:
        path = address(url)
        return visit.site.pages.href(path) if path else ""

    own = services.reading.own_names.last(user).own
    titles = {id_: own.get(id_) or record.title or "" for id_, record in records.items()}
    # A long post with thousands of elements takes a second, so use a thread; and only one per user, so that one user
    # can't occupy all threads.
    async with visit.site.turns.of(user):
        return await asyncio.to_thread(PostForms(image, titles, whole).views, items)


async def _newest(visit: PageVisit, place: TimelinePlace, reply: dict[str, Any]) -> str:
    """The cursor of the newest post that "mark all" on the page includes; empty for none."""
    if not (place.before or place.after or place.oldest_first):
        return str(reply["paging"].get("before", ""))
    user, services = visit.require_session().user, visit.site.services
    rows = await services.reading.rows(user, place.uid, PageQuery(limit=1, view="unread"), visit.now)
    return rows.first.encode() if rows.first is not None else ""


def data_reply(value: object) -> Response:
    """A reply to a script of our pages."""
    return Response(orjson.dumps(value), headers={**page_headers(), "content-type": "application/json"})
