"""Items with their contents, as native apps read them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from html import escape
from typing import Any

import orjson

from microsub.base.texts import N_
from microsub.feeds import FeedRecord, Feeds, InternalAddress
from microsub.formats.wire import post_title
from microsub.greader.ids import LABEL, OTHER, READ, READING_LIST, STARRED, long_form
from microsub.greader.streams import label_names, shown_url, with_replaced
from microsub.model.reader import GLOBAL, Channel, Row, Subscription
from microsub.redis.protocol import Redis
from microsub.timelines import Channels, ReaderViews, feed_name, in_channels, places_of, shown

_AT_ONCE = 250
OTHER_POSTS = N_("Other posts")
"""The name of the feed of items whose own feed isn't followed."""
_KINDS = {"audio": "audio/mpeg", "video": "video/mp4"}


@dataclass(slots=True)
class NativeFeed:
    """A feed that a user follows, and the names of its labels."""

    subscription: Subscription
    labels: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class NativeFeeds:
    """The followed feeds of a user in the order of the channels; `by_id` also has the ids of feeds they replaced."""

    listed: tuple[NativeFeed, ...]
    by_id: Mapping[str, NativeFeed]


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

    async def followed(self, user: str, channels: Sequence[Channel]) -> NativeFeeds:
        """The followed feeds. One round trip."""
        uids = [channel.uid for channel in channels]
        everywhere, former = await asyncio.gather(
            self._channels.subscriptions_of(user, uids), self._channels.former_feeds(user)
        )
        labels = {uid: name for name, uid in label_names(channels).items()}
        found: dict[str, NativeFeed] = {}
        for uid, subscriptions in everywhere.items():
            for one in subscriptions:
                known = found.setdefault(one.feed, NativeFeed(one))
                known.labels += [labels[uid]] if uid in labels else []
        return NativeFeeds(tuple(found.values()), with_replaced(found, former))

    async def subscriptions(self, feeds: NativeFeeds) -> list[dict[str, Any]]:
        """The feeds as the list of subscriptions has them. One round trip."""
        records = await self._feeds.within_reach([one.subscription.feed for one in feeds.listed])
        return [self._subscription(one, records.get(one.subscription.feed)) for one in feeds.listed]

    def _subscription(self, feed: NativeFeed, record: FeedRecord | None) -> dict[str, Any]:
        """Every value is a text, none of the addresses empty.

        At most one folder, the first: Readrops refuses the whole list if a feed has two.
        """
        given = f"feed/{feed.subscription.id}"
        url = shown_url(feed.subscription)
        if InternalAddress.of(url) is not None:
            url = self._page_of(given)
        return {
            "id": given,
            "title": feed_name(feed.subscription, record) or url,
            "url": url,
            "htmlUrl": (record and record.home) or url,
            "iconUrl": (record and record.photo) or "",
            "categories": [{"id": LABEL + name, "label": name} for name in feed.labels[:1]],
        }

    def others(self, language: str) -> dict[str, Any]:
        """The feed of all items whose own feed isn't followed."""
        address, title = self._page_of(f"feed/{OTHER}"), self._translated(OTHER_POSTS, language)
        names = {"id": f"feed/{OTHER}", "title": title, "url": address, "htmlUrl": address}
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
        feeds = await self.followed(user, channels)
        listed = {one["id"]: one for one in await self.subscriptions(feeds)}
        sources = {feed: listed[f"feed/{one.subscription.id}"] for feed, one in feeds.by_id.items()}
        labels, others = label_names(channels), self.others(language)
        for at in range(0, len(ids), _AT_ONCE):
            some = ids[at : at + _AT_ONCE]
            (visible, _), places, members = await asyncio.gather(
                shown(self._redis, user, GLOBAL, some),
                places_of(self._redis, user, some),
                asyncio.gather(*(in_channels(self._redis, user, [uid], some, "posts") for uid in labels.values())),
            )
            there = [item for item in some if item in visible and item in places]
            while there:
                data = await self._reading.data(user, there)
                for item, content in zip(there, data, strict=False):
                    names = [name for name, holders in zip(labels, members, strict=True) if item in holders]
                    if content:
                        post = orjson.loads(b"{" + content.lstrip(b"{,"))
                        source = sources.get(post.get("_source", ""), others)
                        yield item, orjson.dumps(self._item(post, visible[item], places[item], names, source))
                there = there[max(1, len(data)) :]
                await asyncio.sleep(0)

    def _item(
        self, post: dict[str, Any], row: Row, place: int, labels: Sequence[str], source: dict[str, Any]
    ) -> dict[str, Any]:
        url = post.get("url") or source["htmlUrl"]
        published = _moment(post.get("published")) or place // 1_000_000
        states = [READING_LIST, *([READ] if row.is_read else []), *([STARRED] if row.is_saved else [])]
        wire: dict[str, Any] = {
            "id": long_form(row.id),
            # Whole seconds, because Fluent Reader rounds it up to the `ot` of its next sync.
            "crawlTimeMsec": str(place // 1_000_000 * 1000),
            "timestampUsec": str(place),
            "published": published,
            # Liferea shows this as the time of a post.
            "updated": _moment(post.get("updated")) or published,
            "title": " ".join(str(post.get("name") or "").split()) or post_title(post),
            "canonical": [{"href": url, "type": "text/html"}],
            "alternate": [{"href": url, "type": "text/html"}],
            "summary": {"direction": "ltr", "content": html_of(post)},
            "categories": [*states, *(LABEL + name for name in labels)],
            "origin": {"streamId": source["id"], "title": source["title"], "htmlUrl": source["htmlUrl"]},
        }
        if name := (post.get("author") or {}).get("name"):
            wire["author"] = name
        if enclosures := _enclosures(post):
            wire["enclosure"] = enclosures
        return wire


def html_of(post: dict[str, Any]) -> str:
    """The content of a post as HTML, with the pictures that it doesn't contain."""
    content = post.get("content") or {}
    html = content.get("html") or ""
    if not html:
        text = content.get("text") or post.get("summary") or ""
        html = "".join(f"<p>{escape(part)}</p>" for part in text.split("\n") if part.strip())
    pictures = [url for url in post.get("photo") or () if isinstance(url, str) and escape(url) not in html]
    return html + "".join(f'<p><img src="{escape(url)}" alt=""></p>' for url in pictures)


def _enclosures(post: dict[str, Any]) -> list[dict[str, str]]:
    found = {}
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
