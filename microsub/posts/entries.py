"""The posts of a parsed document for the post store, with settled dates and scores. Pure.

An item's place in every timeline is its score, fixed when it is first stored: Unix seconds of publication in
milliseconds, plus k microseconds, where k counts the entries of the document with the same instant from the end. So
ties keep the document's order, newest first, whatever their ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from microsub.base.clock import EPOCH
from microsub.base.digests import short_digest
from microsub.base.urls import normalise_profile, safe_url
from microsub.formats.entry_id import MAX_IDENTITY, common_identity, identities, identity
from microsub.formats.lookups import lacking
from microsub.formats.parse import Listed, reread
from microsub.formats.wire import dump, to_wire
from microsub.model.jf2 import FILES, Entry, Feed
from microsub.parsing.task import Task
from microsub.posts.values import OWN, WRITTEN_GUID, ItemToStore, Listing
from microsub.web.links import links_of

_DATES = frozenset({"published", "updated"})
_SAID = (
    "name",
    "summary",
    "category",
    "like-of",
    "repost-of",
    "bookmark-of",
    "follow-of",
    "in-reply-to",
    "quotation-of",
)
_SAID_MORE = ("rsvp", "start", "end", "checkin", "location")
_COUNTED = (
    "comments?|replies|reactions?|likes?|points?|views?|votes?|shares?|boosts?|kommentare?|commentaires?|comentarios?"
)
_COUNTS = re.compile(
    rf"\b\d[\d.,]{{0,15}}\s{{0,3}}(?:{_COUNTED})\b|\b(?:{_COUNTED})\s?[:(]\s?\d[\d.,]{{0,15}}", re.IGNORECASE
)
"""Numbers that grow by themselves, as in "3 comments" and "Points: 12"."""


@dataclass(frozen=True, slots=True)
class PostsRead:
    """The contents of a document: its `feed` (without entries), posts that may be new or edited, and the Unix times of
    publication in it. `fingerprints` are for the next reading; None if that must process everything. `listing` are the
    guids of all its entries.
    """

    feed: Feed
    items: tuple[ItemToStore, ...]
    dates: tuple[float, ...]
    fingerprints: bytes | None
    listing: Listing


def posts_in(
    body: bytes,
    url: str,
    content_type: str | None,
    source: str,
    fingerprints: bytes | None,
    discovered: float,
    link_header: str | None,
) -> PostsRead:
    """The posts of a document that is read repeatedly, except those that `fingerprints` has.

    `source` is the feed's address; `discovered` as `now` in `items_to_store`; `link_header` the joined value of the
    `Link` header. Raises ParseError.
    """
    reading = reread(body, url, content_type, source, fingerprints)
    items = tuple(items_of(reading.listed, discovered, reading.feed, source))
    dates = dates_of(reading.listed)
    listing = Listing(b"".join(reading.guids), left=reading.left, dated=len(dates) == len(reading.listed))
    return PostsRead(with_hub(reading.feed, link_header, url), items, dates, reading.fingerprints, listing)


POSTS_IN = Task(posts_in)


def with_hub(feed: Feed, link_header: str | None, url: str) -> Feed:
    """`feed` with the hub and topic in the HTTP header, which take precedence over those in the document.

    WebSub, 4: https://www.w3.org/TR/websub/#discovery.
    """
    named: dict[str, str] = {}
    for link in links_of(link_header, url):
        for rel in link.rel.lower().split():
            if (target := safe_url(link.target, url)) is not None:
                named.setdefault(rel, target)
    if "hub" not in named:
        return feed
    return replace(feed, hub=named["hub"], self_url=named.get("self", feed.self_url))


def items_to_store(feed: Feed, now: float, source: str | None = None) -> list[ItemToStore]:
    """The entries of `feed` in document order, each identity once (the first one counts).

    `now` is the time of discovery: it is the date of undated entries, and no date is later. `source` is the document's
    address, which look-ups needn't fetch again.
    """
    guids = identities(feed.entries)
    listed = [Listed(entry.published, guid, entry) for guid, entry in zip(guids, feed.entries, strict=True)]
    return items_of(listed, now, feed, source)


def items_of(listed: Iterable[Listed], now: float, feed: Feed, source: str | None = None) -> list[ItemToStore]:
    """The same for a document's listing: known entries only affect the scores of others."""
    chosen: dict[str | int, Listed] = {}
    for place, one in enumerate(listed):
        chosen.setdefault(place if one.entry is None else one.guid, one)
    scores = scores_of([settled(one.published, now) for one in chosen.values()])
    return [
        _item(one.guid, settle_dates(one.entry, now), score, feed, source)
        for one, score in zip(chosen.values(), scores, strict=True)
        if one.entry is not None
    ]


def settled(published: datetime | None, now: float) -> datetime:
    """The time of publication, or `now` if it is unknown or in the future."""
    discovered = EPOCH + timedelta(seconds=now)
    return discovered if published is None or published > discovered else published


def settle_dates(entry: Entry, now: float) -> Entry:
    """`entry` with a publication date, neither it nor its edit after `now`."""
    published = settled(entry.published, now)
    updated = entry.updated and settled(entry.updated, now)
    if published is entry.published and updated is entry.updated:
        return entry
    return replace(entry, published=published, updated=updated)


def scores_of(published: Sequence[datetime]) -> list[float]:
    """Scores for entries with settled dates, in document order."""
    instants = [(instant - EPOCH) // timedelta(milliseconds=1) for instant in published]
    behind: dict[int, int] = {}
    micros = [0] * len(instants)
    for place in range(len(instants) - 1, -1, -1):
        micros[place] = behind.get(instants[place], 0)
        behind[instants[place]] = micros[place] + 1
    return [(instant * 1000 + micro) / 1_000_000 for instant, micro in zip(instants, micros, strict=True)]


def content_hash(wire: Mapping[str, Any]) -> str:
    """A digest of everything a user can see of an entry except its dates; if it changes, the post was edited.

    Dates don't count: some publishers give every entry a new date with every request.
    """
    visible = {name: value for name, value in wire.items() if name not in _DATES}
    return short_digest(dump(visible, sort=True))


def own_digest(wire: Mapping[str, Any], feed: Feed) -> str:
    """A digest of what the post itself says; if it changes, its author edited the post.

    Left out are the feed's title, author and icon, which the post may show as its author, counts of comments, and the
    queries of addresses of files, since they may have a token that changes each time.
    """
    said = {name: wire[name] for name in (*_SAID, *_SAID_MORE) if name in wire}
    for name in ("name", "summary"):
        if name in said:
            said[name] = _COUNTS.sub("", said[name])
    said["text"] = _COUNTS.sub("", wire.get("content", {}).get("text", ""))
    files = [
        *(one["url"] for one in wire.get("enclosure", ())),
        *(url for name in FILES for url in wire.get(name, ())),
    ]
    said["files"] = [re.split(r"[?#]", url, maxsplit=1)[0] for url in files]
    of_feed = {feed.name, feed.author.name if feed.author else None}
    author = wire.get("author", {}).get("name")
    said["author"] = None if author in of_feed else author
    return short_digest(dump(said, sort=True), 6)


def dates_of(listed: Iterable[Listed]) -> tuple[float, ...]:
    """The publication times that a document names, as Unix seconds."""
    return tuple((one.published - EPOCH).total_seconds() for one in listed if one.published is not None)


def _item(guid: str, entry: Entry, score: float, feed: Feed, source: str | None) -> ItemToStore:
    author = normalise_profile(entry.author.url) if entry.author is not None and entry.author.url else ""
    wire = to_wire(entry)
    alone = identity(entry)
    return ItemToStore(
        guid=guid,
        wire=dump(wire),
        hash=content_hash(wire),
        score=score,
        published=wire.get("published", ""),  # as in the document: an edit that keeps it must not change it
        author=author,
        link=entry.url or "",
        common=common_identity(entry),
        incomplete=bool(lacking(entry, source)),
        shared=alone if alone != guid else "",
        extra={**_written(entry.guid, guid), OWN: own_digest(wire, feed)},
    )


def _written(guid: str | None, known_as: str) -> dict[str, str]:
    """The guid as the feed wrote it, if the identity is only its normal form."""
    if not guid or guid == known_as or len(guid) > MAX_IDENTITY or identity(Entry(guid=guid)) != known_as:
        return {}
    return {WRITTEN_GUID: guid}
