"""The one pivot between all formats: jf2 (https://jf2.spec.indieweb.org/) as frozen values.

Every format module turns its bytes into these values, everything behind works on them alone, and
`microsub.formats.wire` writes them as the JSON that Microsub clients read. A property without a value is `None`
or empty here and absent on the wire. All URLs are absolute and all HTML is sanitised once a value of this module
has left `microsub.formats.parse`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Content:
    """A body, both ways: sanitised `html`, and `text` as a person would read it."""

    html: str | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Card:
    """A person, organisation or place (h-card, h-adr, h-geo); coordinates are decimal strings."""

    type: str = "card"
    name: str | None = None
    url: str | None = None
    photo: str | None = None
    note: str | None = None
    latitude: str | None = None
    longitude: str | None = None
    street_address: str | None = None
    locality: str | None = None
    region: str | None = None
    country_name: str | None = None


@dataclass(frozen=True, slots=True)
class Enclosure:
    """An attached file as the feed declares it; `length` in bytes, `duration` in seconds."""

    url: str
    type: str | None = None
    length: int | None = None
    duration: int | None = None
    title: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One post.

    `guid` is what the publisher identifies it by, as written there, or None; `published` and `updated` are aware
    datetimes or None where the feed is silent or lies beyond repair (the pipeline fills and clamps them). `url` is the
    post's own address; where there is none, the wire has `fallback_url` in its place: the post's first file, the
    entry's own document, or the home page of its feed.
    """

    type: str = "entry"
    post_type: str | None = None
    guid: str | None = None
    uid: str | None = None
    url: str | None = None
    fallback_url: str | None = None
    name: str | None = None
    summary: str | None = None
    content: Content | None = None
    published: datetime | None = None
    updated: datetime | None = None
    author: Card | None = None
    category: tuple[str, ...] = ()
    photo: tuple[str, ...] = ()
    video: tuple[str, ...] = ()
    audio: tuple[str, ...] = ()
    syndication: tuple[str, ...] = ()
    like_of: tuple[str, ...] = ()
    repost_of: tuple[str, ...] = ()
    bookmark_of: tuple[str, ...] = ()
    follow_of: tuple[str, ...] = ()
    in_reply_to: tuple[str, ...] = ()
    featured: str | None = None
    quotation_of: str | None = None
    rsvp: str | None = None
    start: str | None = None
    end: str | None = None
    checkin: Card | None = None
    location: Card | None = None
    enclosure: tuple[Enclosure, ...] = ()
    refs: Mapping[str, Entry | Card] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Feed:
    """A parsed document: what it says of itself, and its entries in document order.

    `url` is the address that it was parsed for, `home` the page it belongs to, `format` one of `rss`, `rdf`, `atom`,
    `jsonfeed`, `h-feed`; `ttl` is the publisher's wish for the time between two polls, in seconds; `hub` and
    `self_url` are the WebSub links.
    """

    url: str
    format: str
    name: str | None = None
    home: str | None = None
    photo: str | None = None
    description: str | None = None
    author: Card | None = None
    entries: tuple[Entry, ...] = ()
    ttl: int | None = None
    hub: str | None = None
    self_url: str | None = None
