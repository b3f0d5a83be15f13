"""The common form of all formats: jf2 (https://jf2.spec.indieweb.org/) as frozen values.

Every format module parses bytes into these values, all later steps use only them, and `microsub.formats.wire` writes
them as the JSON that Microsub apps read. A property without a value is `None` or empty here and absent in JSON. All
URLs are absolute and all HTML is sanitised in values that `microsub.formats.parse` returns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

FILES = ("photo", "video", "audio")
LINK_LISTS = (*FILES, "syndication", "like_of", "repost_of", "bookmark_of", "follow_of", "in_reply_to")
CARDS = ("author", "checkin", "location")
"""Properties of an entry that list files or other URLs, and those that are cards."""


@dataclass(frozen=True, slots=True)
class Content:
    """A body in two forms: sanitised `html`, and plain `text`."""

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
class PodcastChapter:
    """A part of an episode, from `start` in seconds."""

    start: float
    title: str | None = None
    url: str | None = None
    photo: str | None = None


@dataclass(frozen=True, slots=True)
class Participant:
    """A person in an episode; `role` as the publisher writes it, such as `guest`."""

    name: str
    role: str | None = None
    url: str | None = None
    photo: str | None = None


@dataclass(frozen=True, slots=True)
class Transcript:
    """The text of an episode as a file; `type` is its media type."""

    url: str
    type: str | None = None
    language: str | None = None


@dataclass(frozen=True, slots=True)
class Support:
    """A page where listeners can pay for a podcast, and what the publisher calls it."""

    url: str
    title: str | None = None


@dataclass(frozen=True, slots=True)
class Podcast:
    """Properties that only episodes of podcasts have (https://podcasting2.org/docs/podcast-namespace).

    `season` and `episode` are decimal numbers; `episode_type` is `full`, `trailer` or `bonus`; `explicit` warns of
    language that isn't for everybody; `chapters` is the address of a JSON document of chapters; `alternate` are other
    files with the same content.
    """

    season: str | None = None
    season_name: str | None = None
    episode: str | None = None
    episode_type: str | None = None
    explicit: bool = False
    chapters: str | None = None
    chapter: tuple[PodcastChapter, ...] = ()
    transcript: tuple[Transcript, ...] = ()
    person: tuple[Participant, ...] = ()
    alternate: tuple[Enclosure, ...] = ()
    funding: tuple[Support, ...] = ()


@dataclass(frozen=True, slots=True)
class Review:
    """A judgement: `rating` of at most `best`, as decimal numbers, and the `item` that it is about."""

    rating: str | None = None
    best: str | None = None
    item: Card | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One post.

    `guid` is the publisher's identifier, as written there, or None; `published` and `updated` are aware datetimes, or
    None if the feed has none or invalid ones (the pipeline fills and clamps them). `url` is the post's own address. If
    there is none, the JSON has `fallback_url` instead: the post's first file, the entry's own document, or the home
    page of its feed. `is_cut`: the publisher's text was too long to be kept whole.
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
    podcast: Podcast | None = None
    review: Review | None = None
    refs: Mapping[str, Entry | Card] = field(default_factory=dict)
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class Feed:
    """A parsed document: its description of the feed, and its entries in document order.

    `url` is the address that it was parsed for, `home` the page it belongs to, `format` one of `rss`, `rdf`, `atom`,
    `jsonfeed`, `h-feed`; `ttl` is the time between two polls that the publisher requests, in seconds; `hub` and
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
