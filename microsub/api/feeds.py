"""The actions around feeds: `follow`, `unfollow`, `search`, `preview`.

Spec: https://indieweb.org/Microsub-spec#Following and #Search. A feed is `{"type":"feed","url","name","photo","_id"}`;
its health is in members whose names begin with `_`, all of them strings.
"""

from __future__ import annotations

from typing import Any

from microsub.api import arguments
from microsub.api.arguments import Action, Call, Reply, Table, instant
from microsub.base.errors import NotImplementedHere
from microsub.base.urls import canonical_feed_url, mask_credentials
from microsub.discovery.entered import HIDDEN, without_userinfo
from microsub.feeds.push_health import push_health
from microsub.feeds.record import FeedRecord
from microsub.fetch import asking_for
from microsub.formats.feed_links import FeedLink
from microsub.timelines.channels import in_turns
from microsub.timelines.follow import Followed
from microsub.timelines.views import feed_name
from microsub.web.params import missing


async def followed(call: Call) -> Reply:
    """The feeds of a channel, or of all."""
    feeds = await call.services.following.feeds(call.user, arguments.channel(call.params))
    return {"items": [feed_to_wire(feed, call.now) async for feed in in_turns(feeds)]}


async def follow(call: Call) -> Reply:
    """Follow a feed in a channel."""
    uid = arguments.channel(call.params, allow_global=False)
    url = await call.services.entered.whole(call.user, arguments.url(call.params))
    most = await call.services.identity.quotas.most("feeds", call.user)
    return feed_to_wire(await call.services.following.follow(call.user, uid, url, call.now, most=most), call.now)


async def update(call: Call) -> Reply:
    """Move a subscription to another channel."""
    target = arguments.channel(call.params, allow_global=False)
    url = arguments.followed_url(call.params)
    return feed_to_wire(await call.services.following.move(call.user, target, url, call.now), call.now)


async def unfollow(call: Call) -> Reply:
    """Stop following a feed in a channel; unfollowing a feed that isn't followed is no error."""
    uid = arguments.channel(call.params, allow_global=False)
    url = arguments.followed_url(call.params)
    await call.services.following.unfollow(call.user, uid, url, call.now)
    return {"type": "feed", "url": url}


async def search(call: Call) -> Reply:
    """Find feeds by URL, domain or words, or posts of a `channel`.

    `_error` is the reason why an address can't be read.
    """
    if call.params.text("channel") is not None:
        return await _posts(call)
    query = call.params.need("query", "a URL, a domain or words").strip()
    if not query:
        raise missing("query", "a URL, a domain or words")
    with asking_for(f"user {call.user}"):
        whole = await call.services.entered.whole(call.user, query)
        found = await call.services.search.feeds(whole, call.now)
    await call.services.entered.keep_private(call.user, whole, [link.url for link in found.feeds])
    reply: dict[str, Any] = {"results": [link_to_wire(link) for link in found.feeds]}
    return reply | ({"_error": found.trouble} if found.trouble else {})


async def _posts(call: Call) -> Reply:
    """The matching items of a channel, or of all: a search with `channel` is a search in posts."""
    if call.services.post_search is None:
        raise NotImplementedHere("'channel' can't be used with 'search': searching posts is off on this server")
    return await call.services.post_search.page(
        call.user, arguments.channel(call.params), arguments.post_search(call.params), call.now
    )


async def preview(call: Call) -> Reply:
    """The items of a feed, followed or not; only its address is stored, for an hour, so that items can be picked."""
    url = await call.services.entered.whole(call.user, arguments.url(call.params))
    with asking_for(f"user {call.user}"):
        items = await call.services.search.preview(url, call.now)
    await call.services.entered.keep(call.user, [url])
    return {"items": items, "paging": {}}


def feed_to_wire(followed: Followed, now: float) -> dict[str, Any]:
    """A followed feed as clients read it at a Unix time, with credentials masked.

    `url` and `_id` are those that were followed; `_feed_url` and `_feed_id` are the feed's own, if a page was followed
    or the feed has moved.
    """
    record = followed.record
    url = mask_credentials(followed.subscription.url)
    wire: dict[str, Any] = {
        "type": "feed",
        "url": url,
        "name": feed_name(followed.subscription, record),
        "_id": followed.subscription.id,
    }
    if record.id != followed.subscription.id:
        wire["_feed_id"] = record.id
    given = followed.subscription.url
    if record.url != given and canonical_feed_url(record.url) != canonical_feed_url(given):
        wire["_feed_url"] = mask_credentials(record.url)
    if record.photo:
        wire["photo"] = record.photo
    wire.update(_health(followed))
    wire.update(_push(followed.record, now))
    return wire


def link_to_wire(link: FeedLink) -> dict[str, Any]:
    """A feed that a search found, its password hidden: a follow of this address finds it again."""
    url = without_userinfo(link.url, HIDDEN)
    wire: dict[str, Any] = {"type": "feed", "url": url, "name": link.title or url}
    for name, value in (("photo", link.photo), ("description", link.description), ("_format", link.format)):
        if value:
            wire[name] = value
    return wire


def _health(followed: Followed) -> dict[str, str]:
    record = followed.record
    health = {}
    if record.last_success:
        health["_last_success"] = instant(record.last_success)
    if record.failures or record.gone:
        health["_error"] = record.last_error or "the feed can't be fetched"
        health["_failures"] = str(record.failures)
        if record.last_error_at:
            health["_error_at"] = instant(record.last_error_at)
    if record.gone:
        health["_gone"] = "true"
    elif record.next_poll:
        health["_next_poll"] = instant(record.next_poll)
    return health


def _push(record: FeedRecord, now: float) -> dict[str, str]:
    """The state of the subscription, if the feed names a WebSub hub."""
    if not record.hub:
        return {}
    health = push_health(record, now)
    times = {"_lease_until": health.lease_until, "_last_delivery": health.last_delivery}
    said = {name: instant(at) for name, at in times.items() if at is not None}
    counts = {"_posts_pushed": str(health.posts_pushed), "_posts_polled": str(health.posts_polled)}
    return {"_push": "pushed" if health.pushed else "polled", "_push_reason": health.why, **said, **counts}


TABLE: Table = {
    ("GET", "follow", ""): Action("read", followed),
    ("POST", "follow", ""): Action("follow", follow, changes_topics=True),
    ("POST", "follow", "update"): Action("follow", update),
    ("POST", "unfollow", ""): Action("follow", unfollow),
    ("GET", "search", ""): Action("read", search),
    ("POST", "search", ""): Action("read", search),
    ("GET", "preview", ""): Action("read", preview),
    ("POST", "preview", ""): Action("read", preview),
}
