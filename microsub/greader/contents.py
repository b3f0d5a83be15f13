"""Items with their contents, as native apps read them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from typing import Any

import orjson

from microsub.base.urls import mask_credentials
from microsub.feeds import FeedRecord, Feeds, InternalAddress
from microsub.formats.wire import post_title
from microsub.greader.ids import LABEL, OTHER, READ, READING_LIST, STARRED, long_form
from microsub.greader.streams import label_names
from microsub.model.reader import GLOBAL, Channel, Row, Subscription
from microsub.redis.protocol import Redis
from microsub.timelines import Channels, ReaderViews, feed_name, in_channels, places_of, shown

_AT_ONCE = 250
OTHER_POSTS = "Other posts"
"""The name of the feed of items whose own feed isn't followed."""
_KINDS = {"audio": "audio/mpeg", "video": "video/mp4"}


@dataclass(frozen=True, slots=True)
class NativeFeed:
    """A feed that a user follows, and the names of its labels."""

    subscription: Subscription
    record: FeedRecord | None
    labels: tuple[str, ...]


class NativeContents:
    """The followed feeds of users, and their items as native apps read them. `base` is the server's address."""

    def __init__(self, redis: Redis, channels: Channels, feeds: Feeds, reading: ReaderViews, base: str) -> None:
        self._redis = redis
        self._channels = channels
        self._feeds = feeds
        self._reading = reading
        self._base = base

    async def followed(self, user: str, channels: Sequence[Channel]) -> dict[str, NativeFeed]:
        """The followed feeds by id, in the order of the channels. Two round trips."""
        lists = await asyncio.gather(*(self._channels.subscriptions(user, channel.uid) for channel in channels))
        labels = {uid: name for name, uid in label_names(channels).items()}
        found: dict[str, tuple[Subscription, list[str]]] = {}
        for channel, subscriptions in zip(channels, lists, strict=True):
            for one in subscriptions:
                _, names = found.setdefault(one.feed, (one, []))
                names += [labels[channel.uid]] if channel.uid in labels else []
        records = await self._feeds.within_reach(found)
        return {feed: NativeFeed(one, records.get(feed), tuple(names)) for feed, (one, names) in found.items()}

    def subscription(self, feed: NativeFeed) -> dict[str, Any]:
        """A feed as the list of subscriptions has it: every value a text, none of the addresses empty."""
        record = feed.record
        url = mask_credentials(feed.subscription.url)
        if InternalAddress.of(url) is not None:
            url = f"{self._base}/"
        return {
            "id": f"feed/{feed.subscription.id}",
            "title": feed_name(feed.subscription, record) or url,
            "url": url,
            "htmlUrl": (record and record.home) or url,
            "iconUrl": (record and record.photo) or "",
            "categories": [{"id": LABEL + name, "label": name} for name in feed.labels],
        }

    @property
    def others(self) -> dict[str, Any]:
        """The feed of all items whose own feed isn't followed."""
        address = f"{self._base}/"
        names = {"id": f"feed/{OTHER}", "title": OTHER_POSTS, "url": address, "htmlUrl": address}
        return {**names, "iconUrl": "", "categories": []}

    async def items(self, user: str, channels: Sequence[Channel], ids: Sequence[str]) -> AsyncIterator[bytes]:
        """Those of the items that the user's channels show, as JSON, in that order."""
        followed = await self.followed(user, channels)
        sources = {feed: self.subscription(one) for feed, one in followed.items()}
        labels = label_names(channels)
        for at in range(0, len(ids), _AT_ONCE):
            some = ids[at : at + _AT_ONCE]
            visible, places, members = await asyncio.gather(
                shown(self._redis, user, GLOBAL, some),
                places_of(self._redis, user, some),
                asyncio.gather(*(in_channels(self._redis, user, [uid], some, "posts") for uid in labels.values())),
            )
            there = [item for item in some if item in visible.rows and item in places]
            while there:
                data = await self._reading.data(user, there)
                for item, content in zip(there, data, strict=False):
                    names = [name for name, holders in zip(labels, members, strict=True) if item in holders]
                    if content:
                        post = orjson.loads(b"{" + content.lstrip(b"{,"))
                        source = sources.get(post.get("_source", ""), self.others)
                        yield orjson.dumps(self._item(post, visible.rows[item], places[item], names, source))
                there = there[max(1, len(data)) :]
                await asyncio.sleep(0)

    def _item(
        self, post: dict[str, Any], row: Row, place: int, labels: Sequence[str], source: dict[str, Any]
    ) -> dict[str, Any]:
        url = post.get("url") or source["htmlUrl"]
        content = {"direction": "ltr", "content": html_of(post)}
        states = [READING_LIST, *([READ] if row.is_read else []), *([STARRED] if row.is_saved else [])]
        wire: dict[str, Any] = {
            "id": long_form(row.id),
            "crawlTimeMsec": str(place // 1000),
            "timestampUsec": str(place),
            "published": _moment(post.get("published")) or place // 1_000_000,
            "title": " ".join(str(post.get("name") or "").split()) or post_title(post),
            "canonical": [{"href": url, "type": "text/html"}],
            "alternate": [{"href": url, "type": "text/html"}],
            "summary": content,
            "content": content,
            "categories": [*states, *(LABEL + name for name in labels)],
            "origin": {"streamId": source["id"], "title": source["title"], "htmlUrl": source["htmlUrl"]},
        }
        if "updated" in post and (updated := _moment(post["updated"])):
            wire["updated"] = updated
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
    try:
        seconds = int(datetime.fromisoformat(text or "").timestamp())
    except (ValueError, OverflowError):
        return None
    return seconds if 0 < seconds < 2**31 else None
