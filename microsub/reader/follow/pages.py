"""The pages on which users find, preview and follow feeds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nsmallest

from starlette.responses import Response
from starlette.routing import Route

from microsub.base.errors import NotFound, RequestError
from microsub.base.texts import N_
from microsub.base.urls import mask_credentials
from microsub.discovery.entered import HIDDEN, without_userinfo
from microsub.discovery.search import SearchAnswer, preview_items
from microsub.formats.feed_links import FeedLink
from microsub.reader.reading.channel_list import ChannelLink, links
from microsub.reader.reading.pages import change, reader_of, views
from microsub.reader.reading.places import ITEM_ID, given_address
from microsub.reader.settings.lists import LISTS
from microsub.timelines.channels import MOST_OF_NAME
from microsub.timelines.saved import save_posts
from microsub.timelines.views import feed_name
from microsub.web.forms import began_elsewhere
from microsub.web.routes import form, slow_page
from microsub.web.visit import PageSite, PageVisit

FOLLOW, PREVIEW, UNFOLLOW, PICK = "/follow", "/follow/preview", "/follow/end", "/follow/pick"
NEW = "+"
"""The value for a new channel in the choice of channels."""


def routes(site: PageSite) -> list[Route]:
    """The routes of this module."""
    return [
        slow_page(site, FOLLOW, _found),
        slow_page(site, PREVIEW, _preview),
        change(site, FOLLOW, _follow, _found_again),
        change(site, UNFOLLOW, _unfollow),
        form(site, PICK, _pick),
    ]


@dataclass(frozen=True, slots=True)
class FeedCandidate:
    """A feed that a search found; `shown` is its address without passwords, `channels` are the uids that follow it."""

    url: str
    shown: str
    title: str
    description: str
    picture: str
    channels: Sequence[str]


@dataclass(frozen=True, slots=True)
class OwnFeed:
    """A feed that the user follows and whose name or address has the words.

    `shown` is its address without passwords.
    """

    feed: str
    shown: str
    name: str
    channel: ChannelLink


MOST_OWN = 20
"""Feeds of the user's own that a search shows."""


@dataclass(frozen=True, slots=True)
class NewFollow:
    """The feed that was just followed, and its channel."""

    feed: str
    url: str
    name: str
    channel: ChannelLink


async def _found(visit: PageVisit) -> Response:
    """The search field and its results. Another site can only fill in the field."""
    answer = None
    user, services = await reader_of(visit), visit.site.services
    asked = _asked(visit)
    elsewhere = began_elsewhere(visit.request, visit.base)
    if asked != (hidden := without_userinfo(asked, HIDDEN)):
        # The browser keeps the address of this page, and shows it: without the password.
        if elsewhere:
            hidden = without_userinfo(asked)  # another site's password would be the one of the user's next follow
        else:
            await services.entered.keep(user, [asked])
        return visit.go(FOLLOW, q=hidden, channel=visit.query.get("channel", ""))
    if asked and not elsewhere:
        try:
            whole = await services.entered.whole(user, asked)
            answer = await services.search.feeds(whole, visit.now)
            await services.entered.keep_private(user, whole, [link.url for link in answer.feeds])
        except RequestError as error:
            visit.problem = error
    async with visit.turn():
        return await _found_page(visit, answer)


async def _found_again(visit: PageVisit) -> Response:
    await reader_of(visit)
    return await _found_page(visit)


def _asked(visit: PageVisit) -> str:
    """The text to search for. Programs that share an address send it as `url` or `text`."""
    given = [*(visit.query.get(name, "").strip() for name in ("q", "url", "text")), visit.form.text("url")]
    return next(filter(None, given), "")


async def _found_page(visit: PageVisit, answer: SearchAnswer | None = None) -> Response:
    user = visit.require_session().user
    return visit.page(
        "follow.html",
        asked=_asked(visit),
        own=await _own(visit, user, answer) if answer is not None else [],
        candidates=[] if answer is None else await _candidates(visit, user, answer.feeds),
        searched=answer is not None,
        trouble="" if answer is None else answer.trouble or "",
        is_locked=answer is not None and answer.is_locked,
        choices=await _choices(visit),
        chosen=visit.query.get("channel", ""),
        followed=await _just_followed(visit, user),
        channels=await links(visit),
        bookmarklet=_bookmarklet(visit),
        lists=LISTS,
    )


async def _preview(visit: PageVisit) -> Response:
    """The newest posts of a feed, before the user follows it."""
    user, services = await reader_of(visit), visit.site.services
    given = given_address(visit.query.get("url", ""))
    if began_elsewhere(visit.request, visit.base):
        return visit.go(FOLLOW, q=given)
    url = await services.entered.whole(user, given)
    feed = await services.search.feed_at(url)
    await services.entered.keep(user, [url])
    async with visit.turn():
        return visit.page(
            "preview.html",
            url=without_userinfo(url, HIDDEN),
            shown=mask_credentials(url),
            name=feed.name,
            posts=await views(visit, preview_items(feed, url, visit.now)),
            outputs=await services.outputs.all_of(user),
            picked=visit.query.get("picked", ""),
            choices=await _choices(visit),
            followers=(await _followers(visit, user, [url])).get(url, ()),
            chosen=visit.query.get("channel", ""),
            channels=await links(visit),
        )


async def _pick(visit: PageVisit) -> Response:
    """Save a previewed post, or add it to an output feed, without following its feed."""
    user, services = await reader_of(visit), visit.site.services
    saves, output = "save" in visit.form, visit.form.text("output")
    post = visit.form.text("save" if saves else "add")
    items = list((await services.picked.keep(user, [post], visit.now)).values())
    if not items:
        raise NotFound(N_("This preview is too old, or its feed no longer has this post: open the preview again."))
    if saves:
        most = await services.identity.quotas.most("saved", user)
        await save_posts(services.redis, services.items, user, items, visit.now, most=most)
    else:
        await services.output_contents.add(user, output, (), visit.now, items)
        await services.topics_changed(user, visit.now)
    return visit.go(PREVIEW, url=visit.form.text("url"), picked="saved" if saves else f"output {output}")


async def _follow(visit: PageVisit) -> Response:
    user, services = await reader_of(visit), visit.site.services
    url = await services.entered.whole(user, given_address(visit.form.text("url")))
    quotas = await services.identity.quotas.of(user)
    uid = visit.form.text("channel")
    if uid == NEW:
        name = visit.form.text("name") or visit.translate(N_("Home"))
        known = (await links(visit)).called(name)
        channel = known or await services.channels.create(user, name, visit.now, most=quotas.channels or 0)
        uid = channel.uid
    followed = await services.following.follow(user, uid, url, visit.now, most=quotas.feeds or 0)
    title = visit.form.text("title")[:MOST_OF_NAME]
    return visit.go(FOLLOW, feed=followed.record.id, channel=uid, title=title)


async def _unfollow(visit: PageVisit) -> Response:
    """End a follow that has just begun."""
    user, services = await reader_of(visit), visit.site.services
    uid, feed = visit.form.text("channel"), visit.form.text("feed")
    record = await services.feeds.get(feed) if ITEM_ID.fullmatch(feed) else None
    if record is not None:
        await services.following.unfollow(user, uid, record.url, visit.now)
    return visit.go(FOLLOW, channel=uid)


async def _candidates(visit: PageVisit, user: str, found: Sequence[FeedLink]) -> list[FeedCandidate]:
    followers = await _followers(visit, user, [link.url for link in found])
    picture = await visit.site.services.images.addresses(user)
    return [
        FeedCandidate(
            without_userinfo(link.url, HIDDEN),
            mask_credentials(link.url),
            link.title or mask_credentials(link.url),
            link.description or "",
            visit.site.pages.href(picture(link.photo)) if link.photo else "",
            followers.get(link.url, ()),
        )
        for link in found
    ]


async def _own(visit: PageVisit, user: str, answer: SearchAnswer) -> list[OwnFeed]:
    """The user's feeds whose names or addresses have all of the words, by name, without those in the answer."""
    services, words = visit.site.services, _asked(visit).casefold().split()
    shown = {link.url for link in answer.feeds}
    everywhere = await services.channels.all_subscriptions(user)
    follows = [(channel, one) for channel in await _choices(visit) for one in everywhere.get(channel.uid, ())]
    records = await services.feeds.within_reach(one.feed for _, one in follows)

    def found() -> list[OwnFeed]:
        every = (
            OwnFeed(one.feed, mask_credentials(one.url), feed_name(one, records.get(one.feed)), channel)
            for channel, one in follows
            if one.url not in shown
        )
        matching = (one for one in every if all(word in f"{one.name} {one.shown}".casefold() for word in words))
        return nsmallest(MOST_OWN, matching, key=lambda one: one.name.casefold())

    # In a thread, because there may be thousands of feeds.
    return await asyncio.to_thread(found)


async def _followers(visit: PageVisit, user: str, urls: Sequence[str]) -> dict[str, Sequence[str]]:
    """The user's channels that already follow these feeds, by feed; feeds without any are left out."""
    services = visit.site.services
    followers: dict[str, list[str]] = {}
    for uid, subscriptions in (await services.channels.all_subscriptions(user)).items():
        for subscription in subscriptions:
            followers.setdefault(subscription.feed, []).append(uid)
    known = await services.feeds.find_many(urls)
    return {url: followers.get(feed, ()) for url, feed in known.items()}


async def _choices(visit: PageVisit) -> list[ChannelLink]:
    """The channels in which the user can follow a feed."""
    return (await links(visit)).own


async def _just_followed(visit: PageVisit, user: str) -> NewFollow | None:
    feed, services = visit.query.get("feed", ""), visit.site.services
    channel = next((one for one in await _choices(visit) if one.uid == visit.query.get("channel")), None)
    if channel is None or not ITEM_ID.fullmatch(feed) or not await services.channels.follows(user, channel.uid, feed):
        return None
    record = await services.feeds.get(feed)
    if record is None:
        raise NotFound(N_("There is no such feed."))
    # Before the first poll, use the name that the search found.
    name = record.title or visit.query.get("title", "")[:MOST_OF_NAME] or mask_credentials(record.url)
    return NewFollow(feed, record.url, name, channel)


def _bookmarklet(visit: PageVisit) -> str:
    """A bookmarklet that opens the page with the current page's address."""
    return f"javascript:location.href='{visit.base}{FOLLOW}?q='+encodeURIComponent(location.href)"
