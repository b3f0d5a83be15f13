"""Recognises stored posts whose feed lists them under new guids, for example after a move to another program.

A new entry is a stored post of its feed if both have the same link, the document lists no entry under the stored guid,
and nothing else in the feed has that link; and if they also have the same text, or the same title and time of
publication. Where several posts share a link (a daily page, a feed whose entries all link to the site), everything that
users see and the time must agree, and one post of each side only: otherwise a new post would be lost. The same holds
for posts without links. And a text that is published again a day or more later is a new post, as an announcement that
is repeated each month; unless most of the document is like that, or has no dates.

A post is known by its present guid and the one before, so a publisher that invents guids with every request leaves no
more than two for each post.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import orjson

from microsub.errors import StoreDamaged
from microsub.formats.entry_id import fold, guid_digest
from microsub.kit.urls import normalise_url
from microsub.posts.values import ANY, WRITTEN_GUID, ItemToStore, Listing
from microsub.redis import keys
from microsub.redis.protocol import Arg, Redis
from microsub.redis.replies import filled, text
from microsub.redis.scripts import batches, load

if TYPE_CHECKING:
    from microsub.feeds.record import FeedRecord

FORMER_GUID = "former_guid"
"""The field of an item with the guid that it had before its present one."""

COMPARED = 8_000_000
"""Maximum bytes of stored posts whose texts are compared with those of one document."""

_DAY = 86_400
_SPARE = 20
_AT_ONCE = 16
_FIELDS = ("guid", FORMER_GUID, "link", "hash", "score")
_CHANGE, _UPDATE = load("guid_change"), load("item_update")


@dataclass(frozen=True, slots=True)
class _Post:
    """A stored post, with its link in the form in which links are compared."""

    id: str
    guid: str
    former: str
    link: str
    hash: str
    score: float


def window(listing: Listing) -> int:
    """How many of the feed's latest posts may be the entries of a document."""
    return 2 * len(listing) + _SPARE


async def changed_guids(
    redis: Redis,
    feed: FeedRecord,
    fresh: Sequence[ItemToStore],
    latest: Sequence[str],
    listing: Listing,
    known: Collection[str],
) -> dict[str, str]:
    """The stored posts that `fresh` entries are (guid → item id), once their new guids are recorded.

    `latest` are ids of the feed's latest posts (`window`), `known` those of posts that other entries of the document
    are. One round trip; up to three more, and one for each sixteen posts whose texts are compared, if posts have the
    links of fresh entries. Posts that can't be read are left out.
    """
    entries = [(one, _compared(one.link)) for one in fresh]
    if not entries or not latest:
        return {}
    rows = await redis.pipeline([("HMGET", keys.item(item_id), *_FIELDS) for item_id in latest])
    wanted = {link for _, link in entries}
    posts = [
        post for item_id, row in zip(latest, rows, strict=True) if (post := _read(item_id, row)) and post.link in wanted
    ]
    listed = listing.digests
    left = [
        post
        for post in posts
        if post.id not in known and not listed & {guid_digest(post.guid), guid_digest(post.former)}
    ]
    if not left:
        return {}
    found: list[tuple[ItemToStore, _Post]] = []
    same: list[tuple[ItemToStore, _Post]] = []
    unsure: list[tuple[ItemToStore, _Post]] = []
    shared = {link for link, count in Counter(post.link for post in posts).items() if count > 1}
    shared |= {link for link, count in Counter(link for _, link in entries).items() if count > 1}
    shared |= {link for link in wanted if _is_front(link, feed.home)}
    alike = _one_each([(_looks(one, link), one) for one, link in entries])
    looks = _one_each([(_looks(post, post.link), post) for post in left])
    alone = {post.link: post for post in left if post.link not in shared}
    for one, link in entries:
        key = _looks(one, link)
        if link in alone:
            (same if one.hash == alone[link].hash else unsure).append((one, alone[link]))
        elif key in alike and key in looks:
            found.append((one, looks[key]))
    same += [pair async for pair in _same(redis, unsure)]
    again = [pair for pair in same if abs(pair[0].score - pair[1].score) >= _DAY]
    if listing.dated and (len(again) == 1 or 2 * len(again) < len(listing)):
        same = [pair for pair in same if pair not in again]
    return await _record(redis, feed.id, [*found, *same])


async def _same(redis: Redis, pairs: Sequence[tuple[ItemToStore, _Post]]) -> AsyncIterator[tuple[ItemToStore, _Post]]:
    """The pairs that are one post by their texts, or by title and time of publication."""
    room = COMPARED
    for some in batches(pairs, _AT_ONCE):
        stored = await redis.pipeline([("HGET", keys.item(post.id), "Data") for _, post in some])
        for (one, post), data in zip(some, stored, strict=True):
            room -= len(data or b"")
            if room < 0:
                return
            with suppress(ValueError):  # it is corrupt
                if data and _is_same(orjson.loads(one.wire), orjson.loads(data), abs(one.score - post.score) < 1):
                    yield one, post


def _is_same(new: Mapping[str, Any], old: Mapping[str, Any], same_time: bool) -> bool:
    """Whether two posts with the same link, as JSON, are one."""
    name, body = fold(new.get("name", "")), _body(new)
    return bool((same_time and name and name == fold(old.get("name", ""))) or (body and body == _body(old)))


def _body(wire: Mapping[str, Any]) -> str:
    content = wire.get("content") or {}
    return fold(content.get("text") or content.get("html") or wire.get("summary") or "")


async def _record(redis: Redis, feed_id: str, found: Sequence[tuple[ItemToStore, _Post]]) -> dict[str, str]:
    if not found:
        return {}
    args: list[Arg] = []
    for one, post in found:
        args += (one.guid, post.id, post.former)
    owners = await redis.script(_CHANGE, [keys.feed_guids(feed_id)], args)
    pairs = [pair for pair, owner in zip(found, owners, strict=True) if text(owner) == pair[1].id]
    await redis.scripts(
        [
            (_UPDATE, [keys.item(post.id)], ["change", ANY, "", "guid", one.guid, FORMER_GUID, post.guid,
                                             WRITTEN_GUID, one.extra.get(WRITTEN_GUID, "")])
            for one, post in pairs
        ]
    )  # fmt: skip
    return {one.guid: post.id for one, post in pairs}


def _looks(post: ItemToStore | _Post, link: str) -> tuple[str, str, int]:
    """What users see of a post: its link, its content and its time in milliseconds."""
    return link, post.hash, int(post.score * 1000)


def _one_each(pairs: Sequence[tuple[tuple[str, str, int], Any]]) -> dict[tuple[str, str, int], Any]:
    """The pairs whose key occurs once."""
    counts = Counter(key for key, _ in pairs)
    return {key: value for key, value in pairs if counts[key] == 1}


def _read(item_id: str, row: Sequence[bytes | None]) -> _Post | None:
    with suppress(StoreDamaged, ValueError):
        guid, former, link, digest, score = filled(row)
        return _Post(item_id, guid, former, _compared(link), digest, float(score)) if score else None
    return None


def _compared(link: str) -> str:
    """A link as it is compared: a site that moves to `www.` takes its posts with it."""
    return normalise_url(link).replace("://www.", "://", 1)


def _is_front(link: str, home: str | None) -> bool:
    """Whether a link, as it is compared, is the site's or feed's own page rather than a post's."""
    parts = urlsplit(link)
    return (not parts.path.strip("/") and not parts.query) or (bool(home) and link == _compared(home or ""))
