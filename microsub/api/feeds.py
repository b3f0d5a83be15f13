"""The actions around feeds: `follow`, `unfollow`, `search`, `preview`.

Spec: https://indieweb.org/Microsub-spec#Following and #Search. A feed is `{"type":"feed","url","name","photo","_id"}`;
its health is in members whose names begin with `_`, all of them strings.
"""

from __future__ import annotations

import asyncio
from typing import Any

from microsub.accounts import Most
from microsub.api import arguments
from microsub.base.errors import NotFound, NotImplementedHere
from microsub.base.urls import canonical_feed_url, mask_credentials, without_credentials
from microsub.configuration.follows import FEED_SETTINGS, feed_settings, with_settings
from microsub.configuration.model import FeedConfig
from microsub.discovery import HIDDEN, EnteredAddresses, Search
from microsub.feeds import FeedRecord, push_health
from microsub.fetch import asking_for
from microsub.formats.feed_links import FeedLink
from microsub.model.sign_ins import sign_in_headers
from microsub.search import PostSearch
from microsub.timelines import Followed, Following, SignedFeeds, in_turns
from microsub.web.actions import Action, Call, Reply, Table, channel_in, instant, url_in
from microsub.web.params import missing


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
        "name": followed.name,
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
    url = without_credentials(link.url, HIDDEN)
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


class FeedActions:
    """The actions around feeds. `post_search` is None if searching posts is off."""

    def __init__(
        self,
        following: Following,
        search: Search,
        entered: EnteredAddresses,
        post_search: PostSearch | None,
        most: Most,
        signed: SignedFeeds,
    ) -> None:
        self._following = following
        self._search = search
        self._entered = entered
        self._post_search = post_search
        self._most = most
        self._signed = signed

    def table(self) -> Table:
        """The actions by what selects them."""
        return {
            ("GET", "follow", ""): Action("read", self.followed),
            ("POST", "follow", ""): Action("follow", self.follow, changes_topics=True),
            ("POST", "follow", "update"): Action("follow", self.update),
            ("GET", "follow", "settings"): Action("read", self.settings),
            ("POST", "follow", "settings"): Action("follow", self.change),
            ("POST", "follow", "sign_in"): Action("follow", self.sign_in),
            ("POST", "unfollow", ""): Action("follow", self.unfollow),
            ("GET", "search", ""): Action("read", self.search),
            ("POST", "search", ""): Action("read", self.search),
            ("GET", "preview", ""): Action("read", self.preview),
            ("POST", "preview", ""): Action("read", self.preview),
        }

    async def followed(self, call: Call) -> Reply:
        """The feeds of a channel, or of all."""
        feeds = await self._following.feeds(call.user, channel_in(call.params))
        return {"items": [feed_to_wire(feed, call.now) async for feed in in_turns(feeds)]}

    async def follow(self, call: Call) -> Reply:
        """Follow a feed in a channel."""
        uid = channel_in(call.params, allow_global=False)
        url = await self._entered.whole(call.user, url_in(call.params))
        most = await self._most("feeds", call.user)
        return feed_to_wire(await self._following.follow(call.user, uid, url, call.now, most=most), call.now)

    async def update(self, call: Call) -> Reply:
        """Move a subscription to another channel."""
        target = channel_in(call.params, allow_global=False)
        url = arguments.followed_url(call.params)
        return feed_to_wire(await self._following.move(call.user, target, url, call.now), call.now)

    async def settings(self, call: Call) -> Reply:
        """The user's settings for a feed of a channel, as in backend.json."""
        uid = channel_in(call.params, allow_global=False)
        follow = await self._following.find(call.user, uid, arguments.followed_url(call.params))
        return {"settings": feed_settings(FeedConfig.of(follow))}

    async def change(self, call: Call) -> Reply:
        """Change the given settings for a feed of a channel, and restore the defaults of those in `reset`."""
        uid = channel_in(call.params, allow_global=False)
        follow = await self._following.find(call.user, uid, arguments.followed_url(call.params))
        given = {name: value for name in FEED_SETTINGS if (value := call.params.text(name)) is not None}
        reset = dict.fromkeys(call.params.many("reset"), "")
        # In a thread, because pydantic takes a second to load.
        wanted = await asyncio.to_thread(with_settings, FeedConfig.of(follow), given | reset)
        name = (wanted.name or "") if "name" in given | reset else None
        await self._following.change(
            call.user, uid, follow.feed, call.now, name=name, settings=wanted.settings, former=follow.settings
        )
        return {"settings": feed_settings(wanted)}

    async def sign_in(self, call: Call) -> Reply:
        """Ask for a followed feed with `user_name` and `password` or `headers`, or with `end` without any again.

        The user follows a feed of their own then; the reply describes it.
        """
        uid = channel_in(call.params, allow_global=False)
        follow = await self._following.find(call.user, uid, arguments.followed_url(call.params))
        if call.params.text("end"):
            record = await self._signed.remove(call.user, follow.feed, call.now)
        else:
            most = await self._most("feeds", call.user)
            given = sign_in_headers(*(call.params.text(name) or "" for name in ("user_name", "password", "headers")))
            record = await self._signed.give(call.user, follow.feed, given, call.now, most=most)
        for one in await self._following.feeds(call.user, uid):
            if one.record.id == record.id:
                return feed_to_wire(one, call.now)
        raise NotFound("'url' isn't followed any more: another request gave the feed other credentials meanwhile")

    async def unfollow(self, call: Call) -> Reply:
        """Stop following a feed in a channel; unfollowing a feed that isn't followed is no error."""
        uid = channel_in(call.params, allow_global=False)
        url = arguments.followed_url(call.params)
        await self._following.unfollow(call.user, uid, url, call.now)
        return {"type": "feed", "url": url}

    async def search(self, call: Call) -> Reply:
        """Find feeds by URL, domain or words, or posts of a `channel`.

        `_error` is the reason why an address can't be read.
        """
        if call.params.text("channel") is not None:
            return await self._posts(call)
        query = call.params.need("query", "a URL, a domain or words").strip()
        if not query:
            raise missing("query", "a URL, a domain or words")
        with asking_for(f"user {call.user}"):
            whole = await self._entered.whole(call.user, query)
            found = await self._search.feeds(whole, call.now)
        await self._entered.keep_private(call.user, whole, [link.url for link in found.feeds])
        reply: dict[str, Any] = {"results": [link_to_wire(link) for link in found.feeds]}
        return reply | ({"_error": found.trouble} if found.trouble else {})

    async def preview(self, call: Call) -> Reply:
        """The items of a feed, followed or not; only its address is stored, for an hour, so items can be picked."""
        url = await self._entered.whole(call.user, url_in(call.params))
        with asking_for(f"user {call.user}"):
            items = await self._search.preview(url, call.now)
        await self._entered.keep(call.user, [url])
        return {"items": items, "paging": {}}

    async def _posts(self, call: Call) -> Reply:
        """The matching items of a channel, or of all: a search with `channel` is a search in posts."""
        if self._post_search is None:
            raise NotImplementedHere("'channel' can't be used with 'search': searching posts is off on this server")
        return await self._post_search.page(
            call.user, channel_in(call.params), arguments.post_search(call.params), call.now
        )
