"""Items with their contents, as native apps read them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from html import escape
from typing import Any

import orjson

from microsub.base.texts import N_
from microsub.feeds import ICON, Feeds, InternalAddress
from microsub.formats.wire import post_title
from microsub.greader.ids import LABEL, OTHER, READ, READING_LIST, STARRED, long_form
from microsub.greader.streams import label_names, shown_url, with_replaced
from microsub.model.reader import SAVED, Channel, Subscription
from microsub.redis.protocol import Redis
from microsub.redis.scripts import batches
from microsub.timelines import Channels, ReaderViews, in_channels, places_of

_AT_ONCE = 250
OTHER_POSTS = N_("Other posts")
"""The name of the feed of items whose own feed isn't followed."""
_UNREAD, _READ = (READING_LIST,), (READING_LIST, READ)
_OTHERS, _OF_ORIGIN = f"feed/{OTHER}", ("title", "htmlUrl")
_KINDS = {"audio": "audio/mpeg", "video": "video/mp4"}
_FILES = frozenset({"enclosure", *_KINDS})


FollowedFeeds = Mapping[str, tuple[Subscription, str]]
"""Followed feeds by id, each with the name of the first label that it has, or ''."""


class NativeContents:
    """The followed feeds of users, and their items as native apps read them.

    `base` is the server's address; `translated` gives a text in a language.
    """

    def __init__(
        self,
        redis: Redis,
        channels: Channels,
        feeds: Feeds,
        reading: ReaderViews,
        translated: Callable[[str, str], str],
        base: str,
    ) -> None:
        self._redis = redis
        self._channels = channels
        self._feeds = feeds
        self._reading = reading
        self._translated = translated
        self._base = base

    async def followed(self, user: str, channels: Sequence[Channel]) -> tuple[FollowedFeeds, FollowedFeeds]:
        """The followed feeds in the order of the channels; and with the ids of feeds that they replaced.

        One round trip.
        """
        uids = [channel.uid for channel in channels]
        everywhere, former = await asyncio.gather(
            self._channels.subscriptions_of(user, uids), self._channels.former_feeds(user)
        )
        labels = {uid: name for name, uid in label_names(channels).items()}
        found: dict[str, tuple[Subscription, str]] = {}
        for uid, subscriptions in everywhere.items():
            for one in subscriptions:
                known, label = found.get(one.feed, (one, ""))
                found[one.feed] = known, label or labels.get(uid, "")
        return found, with_replaced(found, former)

    async def subscriptions(self, feeds: FollowedFeeds) -> list[dict[str, Any]]:
        """The feeds as the list of subscriptions has them. One round trip."""
        described = await self._feeds.descriptions([*feeds], ("title", "home", "photo", ICON))
        return [self._subscription(*one, *own) for one, own in zip(feeds.values(), described, strict=True)]

    def _subscription(
        self, feed: Subscription, label: str, title: str, home: str, photo: str, icon: str
    ) -> dict[str, Any]:
        """Every value is a text, none of the addresses empty.

        At most one folder, the first: Readrops refuses the whole list if a feed has two.
        """
        given = f"feed/{feed.id}"
        url = shown_url(feed)
        if InternalAddress.of(url) is not None:
            url = self._page_of(given)
        return {
            "id": given,
            "title": feed.name or title or url,
            "url": url,
            "htmlUrl": home or url,
            "iconUrl": photo or icon,
            "categories": [{"id": LABEL + label, "label": label}] if label else [],
        }

    def others(self, language: str) -> dict[str, Any]:
        """The feed of all items whose own feed isn't followed."""
        address, title = self._page_of(_OTHERS), self._translated(OTHER_POSTS, language)
        names = {"id": _OTHERS, "title": title, "url": address, "htmlUrl": address}
        return {**names, "iconUrl": "", "categories": []}

    def _page_of(self, given: str) -> str:
        """The address of a feed that has none on the web: Fluent Reader refuses two feeds with one address."""
        return f"{self._base}/?{given}"

    async def items(
        self, user: str, channels: Sequence[Channel], ids: Sequence[str], language: str
    ) -> AsyncIterator[tuple[str, bytes]]:
        """Those of the items that the user's channels show, each with its JSON, in that order."""
        if not ids:
            return
        (feeds, by_id), number = await asyncio.gather(
            self.followed(user, channels), self._channels.number_of_names(user)
        )
        listed = [*await self.subscriptions(feeds), self.others(language)]
        origins = {one["id"]: {"streamId": one["id"], **{name: one[name] for name in _OF_ORIGIN}} for one in listed}
        by_feed = {feed: origins[f"feed/{one.id}"] for feed, (one, _) in by_id.items()}
        for some in batches(ids):
            places, tags = await self._tagged(user, channels, some)
            left = [item for item in some if item in tags and item in places]
            while left:
                data = await self._reading.data(user, left[:_AT_ONCE], number)
                for item, one in zip(left, data, strict=False):
                    if one:
                        post = orjson.loads(b"{" + one)
                        origin = by_feed.get(post.get("_source", ""), origins[_OTHERS])
                        yield item, _item(item, places[item], tags[item], post, origin)
                left = left[max(1, len(data)) :]
                await asyncio.sleep(0)

    async def _tagged(
        self, user: str, channels: Sequence[Channel], ids: Sequence[str]
    ) -> tuple[dict[str, int], dict[str, tuple[str, ...]]]:
        """The positions of the items, and the tags of those that the channels show. Two round trips."""
        uids = list(dict.fromkeys([SAVED, *(channel.uid for channel in channels)]))
        names = {SAVED: STARRED, **{uid: LABEL + name for name, uid in label_names(channels).items()}}
        places, shown = await asyncio.gather(
            places_of(self._redis, user, ids),
            asyncio.gather(*(in_channels(self._redis, user, [uid], ids, "posts") for uid in uids)),
        )
        # Most channels show none of them.
        holders = [uid for uid, items in zip(uids, shown, strict=True) if items]
        unread = await in_channels(self._redis, user, holders, ids, "unread") if holders else set()
        tags: dict[str, tuple[str, ...]] = {}
        for uid, items in zip(uids, shown, strict=True):
            # Items share their tags: a list for each would be examined by every garbage collection.
            added, longer = (names[uid],) if uid in names else (), dict[tuple[str, ...], tuple[str, ...]]()
            for item in items:
                known = tags.get(item) or (_UNREAD if item in unread else _READ)
                tags[item] = longer.get(known) or longer.setdefault(known, (*known, *added))
        return places, tags


def _item(item: str, place: int, tags: Sequence[str], post: dict[str, Any], origin: Mapping[str, str]) -> bytes:
    arrived = place // 1_000_000
    published = _moment(post.get("published")) or arrived
    link = {"href": post.get("url") or origin["htmlUrl"]}
    wire: dict[str, Any] = {
        "id": long_form(item),
        # Whole seconds, because Fluent Reader rounds it up to the `ot` of its next sync.
        "crawlTimeMsec": f"{arrived}000",
        "timestampUsec": str(place),
        "published": published,
        # Liferea shows this as the time of a post.
        "updated": _moment(post.get("updated")) or published,
        "title": " ".join(str(post.get("name") or "").split()) or post_title(post),
        # Without a type: Python's google-reader fails with one.
        "canonical": [link],
        "alternate": [{**link, "type": "text/html"}],
        "summary": {"direction": "ltr", "content": html_of(post)},
        "categories": tags,
        "origin": origin,
    }
    if name := (post.get("author") or {}).get("name"):
        wire["author"] = name
    if enclosures := _enclosures(post):
        wire["enclosure"] = enclosures
    return orjson.dumps(wire)


def html_of(post: dict[str, Any]) -> str:
    """The content of a post as HTML, with the pictures that it doesn't contain."""
    content = post.get("content") or {}
    html = content.get("html") or ""
    if not html:
        text = content.get("text") or post.get("summary") or ""
        html = "".join(f"<p>{escape(part)}</p>" for part in text.split("\n") if part.strip())
    for url in post.get("photo") or ():
        if isinstance(url, str) and escape(url) not in html:
            html += f'<p><img src="{escape(url)}" alt=""></p>'
    return html


def _enclosures(post: dict[str, Any]) -> list[dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    if _FILES.isdisjoint(post):
        return []
    for one in post.get("enclosure") or ():
        if one.get("url"):
            length = {"length": str(one["length"])} if one.get("length") else {}
            found[one["url"]] = {"href": one["url"], "type": one.get("type") or "application/octet-stream", **length}
    for name, kind in _KINDS.items():
        for url in post.get(name) or ():
            if isinstance(url, str):
                found.setdefault(url, {"href": url, "type": kind})
    return list(found.values())


def _moment(text: str | None) -> int | None:
    """ISO 8601 in Unix seconds; None for a time that apps can't show."""
    if not text:
        return None
    try:
        seconds = int(datetime.fromisoformat(text).timestamp())
    except (ValueError, OverflowError):
        return None
    return seconds if 0 < seconds < 2**31 else None
