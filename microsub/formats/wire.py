"""Converts jf2 values to the JSON that Microsub clients read (https://jf2.spec.indieweb.org/).

Several clients drop a whole page because of one wrong type, so types are fixed here: lists are lists even with one
value, coordinates are strings, and a property without a value is absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import orjson

from microsub.model.jf2 import (
    CARDS,
    LINK_LISTS,
    Card,
    Content,
    Enclosure,
    Entry,
    Feed,
    Participant,
    Podcast,
    PodcastChapter,
    Review,
    Support,
    Transcript,
)

_STRINGS = ("uid", "url", "name", "summary")
_LISTS = ("category", *LINK_LISTS)
_LATE_STRINGS = ("featured", "quotation_of", "rsvp", "start", "end")
_CARD = (
    "name",
    "url",
    "photo",
    "note",
    "latitude",
    "longitude",
    "street_address",
    "locality",
    "region",
    "country_name",
)
_HYPHEN = {name: name.replace("_", "-") for name in (*_STRINGS, *_LISTS, *_LATE_STRINGS, *_CARD)}


def to_wire(entry: Entry) -> dict[str, Any]:
    """`entry` as JSON-ready values; `type` comes first, `author` is always present.

    In `refs`, an author is present only if something is known about it, because apps show a box for each author.
    """
    wire = _to_wire(entry)
    wire.setdefault("author", {"type": "card"})
    return wire


def _to_wire(entry: Entry) -> dict[str, Any]:
    wire: dict[str, Any] = {"type": entry.type}
    if entry.post_type:
        wire["post-type"] = entry.post_type
    _put_strings(wire, entry, _STRINGS)
    if "url" not in wire and entry.fallback_url:
        wire["url"] = entry.fallback_url
    for name in ("published", "updated"):
        if (instant := getattr(entry, name)) is not None:
            wire[name] = timestamp(instant)
    if content := _content(entry.content):
        wire["content"] = content
    for name in CARDS:
        if (card := getattr(entry, name)) is not None and card != Card(type=card.type):
            wire[name] = card_to_wire(card)
    if entry.checkin is not None and "checkin" in wire:
        wire["checkin"].setdefault("name", _place_name(entry.checkin))
    for name in _LISTS:
        if values := getattr(entry, name):
            wire[_HYPHEN[name]] = list(values)
    _put_strings(wire, entry, _LATE_STRINGS)
    if entry.enclosure:
        wire["enclosure"] = [_enclosure(enclosure) for enclosure in entry.enclosure]
    if entry.podcast is not None:
        wire["_podcast"] = podcast_to_wire(entry.podcast)
    if entry.is_cut:
        wire["_cut"] = True
    if entry.review is not None:
        wire["_review"] = _review(entry.review)
    if entry.refs:
        wire["refs"] = {
            url: card_to_wire(ref) if isinstance(ref, Card) else _to_wire(ref) for url, ref in entry.refs.items()
        }
    return wire


def feed_to_wire(feed: Feed) -> dict[str, Any]:
    """`feed` as a jf2 feed with its entries as `children`, for callers that want one document."""
    wire: dict[str, Any] = {"type": "feed", "format": feed.format}
    for name in ("url", "name", "home", "photo", "description", "ttl", "hub", "self_url"):
        if (value := getattr(feed, name)) is not None:
            wire[_HYPHEN.get(name, name.replace("_", "-"))] = value
    if feed.author is not None:
        wire["author"] = card_to_wire(feed.author)
    wire["children"] = [to_wire(entry) for entry in feed.entries]
    return wire


def card_to_wire(card: Card) -> dict[str, Any]:
    """A person or place as JSON-ready values."""
    wire: dict[str, Any] = {"type": card.type}
    _put_strings(wire, card, _CARD)
    return wire


def encode(entry: Entry, *, item_id: str, source: str) -> bytes:
    """The item as it is stored and served: compact JSON that starts with `{"type":`.

    `_is_read` and `_channel` depend on the user and are inserted when a page is built.
    """
    return identified(dump(to_wire(entry)), item_id, source)


def dump(wire: Mapping[str, Any], *, sort: bool = False) -> bytes:
    """JSON-ready values as compact JSON, with sorted names for comparisons."""
    return orjson.dumps(wire, option=orjson.OPT_SORT_KEYS if sort else None)


def identified(data: bytes, item_id: str, source: str) -> bytes:
    """The JSON of an entry with its id in the store and the id of its feed."""
    return b'%b,"_id":"%b","_source":"%b"}' % (data[:-1], item_id.encode(), source.encode())


_DAY_AGO = 86_400.0
"""Seconds: dates that are a day old in any time zone aren't in the future."""


def not_ahead(data: bytes, now: float) -> bytes:
    """A stored item whose `published` and `updated` are at most `now` (Unix time).

    They are later if the clock was ahead when the item was stored.
    """
    recent = _date(int((now - _DAY_AGO) // _DAY_AGO))
    places = [(data.find(b'"%b":"' % name), len(name) + 4) for name in (b"published", b"updated")]
    if all(at < 0 or data[at + name : at + name + 10] < recent for at, name in places):
        return data
    wire, latest = orjson.loads(data), datetime.fromtimestamp(now, UTC)
    ahead = [one for one in ("published", "updated") if one in wire and datetime.fromisoformat(wire[one]) > latest]
    return dump({**wire, **dict.fromkeys(ahead, timestamp(latest))}) if ahead else data


@lru_cache(maxsize=8)
def _date(days: int) -> bytes:
    """The date so many days after the first of 1970; a page asks twenty times for the same one."""
    return datetime.fromtimestamp(days * _DAY_AGO, UTC).date().isoformat().encode()


def redated(data: bytes, published: str) -> bytes:
    """The JSON of an entry with another time of publication, ISO 8601."""
    return dump({**orjson.loads(data), "published": published}) if published else data


def timestamp(instant: datetime) -> str:
    """ISO 8601 with offset, in whole seconds; a naive time counts as UTC."""
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=UTC)
    return instant.isoformat(timespec="seconds")


def _place_name(place: Card) -> str:
    """What to call a place without a name: its address or coordinates. IndiePass for Android ends a page without."""
    address = (place.street_address, place.locality, place.region, place.country_name)
    point = (place.latitude, place.longitude)
    return ", ".join(filter(None, address)) or ", ".join(filter(None, point)) or place.url or "?"


def _put_strings(wire: dict[str, Any], value: Entry | Card, names: tuple[str, ...]) -> None:
    for name in names:
        if text := getattr(value, name):
            wire[_HYPHEN[name]] = text


def _content(content: Content | None) -> dict[str, str] | None:
    if content is None or not (content.html or content.text):
        return None
    return {"html": content.html or "", "text": content.text or ""}


def _enclosure(enclosure: Enclosure) -> dict[str, Any]:
    names = ("url", "type", "length", "duration", "title")
    return {name: value for name in names if (value := getattr(enclosure, name)) is not None}


_PODCAST_TEXTS = ("season", "season_name", "episode", "episode_type", "chapters")
_PODCAST_PARTS: dict[str, type[Any]] = {
    "chapter": PodcastChapter,
    "transcript": Transcript,
    "person": Participant,
    "alternate": Enclosure,
    "funding": Support,
}


def podcast_to_wire(podcast: Podcast) -> dict[str, Any]:
    """The podcast elements of an episode as JSON-ready values."""
    wire: dict[str, Any] = {name.replace("_", "-"): text for name in _PODCAST_TEXTS if (text := getattr(podcast, name))}
    if podcast.explicit:
        wire["explicit"] = True
    for name in _PODCAST_PARTS:
        if values := getattr(podcast, name):
            wire[name] = [
                {one.name: part for one in fields(value) if (part := getattr(value, one.name)) is not None}
                for value in values
            ]
    return wire


def _review(review: Review) -> dict[str, Any]:
    wire: dict[str, Any] = {name: text for name in ("rating", "best") if (text := getattr(review, name))}
    return {**wire, "item": card_to_wire(review.item)} if review.item is not None else wire


# --- reading -------------------------------------------------------------------------------------------------------


def from_wire(wire: Mapping[str, Any]) -> Entry:
    """Read an entry that `to_wire` wrote.

    The guid isn't part of it; unknown members are ignored. Raises ValueError for an invalid time.
    """
    values: dict[str, Any] = {"type": wire.get("type", "entry"), "post_type": wire.get("post-type")}
    for name in (*_STRINGS, *_LATE_STRINGS):
        values[name] = wire.get(_HYPHEN[name])
    for name in ("published", "updated"):
        values[name] = datetime.fromisoformat(wire[name]) if name in wire else None
    if content := wire.get("content"):
        values["content"] = Content(content.get("html"), content.get("text"))
    for name in CARDS:
        values[name] = card_from_wire(wire[name]) if name in wire else None
    for name in _LISTS:
        values[name] = tuple(wire.get(_HYPHEN[name], ()))
    values["enclosure"] = tuple(Enclosure(**enclosure) for enclosure in wire.get("enclosure", ()))
    values["is_cut"] = bool(wire.get("_cut"))
    if podcast := wire.get("_podcast"):
        values["podcast"] = podcast_from_wire(podcast)
    if review := wire.get("_review"):
        item = card_from_wire(review["item"]) if "item" in review else None
        values["review"] = Review(review.get("rating"), review.get("best"), item)
    values["refs"] = {
        url: card_from_wire(ref) if ref.get("type") == "card" else from_wire(ref)
        for url, ref in wire.get("refs", {}).items()
    }
    return Entry(**values)


def podcast_from_wire(wire: Mapping[str, Any]) -> Podcast:
    """Read what `podcast_to_wire` wrote; unknown members and parts without their first member are ignored.

    Values of another document have yet to be checked: `podcast.bounded_podcast`.
    """
    parts: dict[str, Any] = {name: wire.get(name.replace("_", "-")) for name in _PODCAST_TEXTS}
    for name, made in _PODCAST_PARTS.items():
        known, listed = [one.name for one in fields(made)], wire.get(name)
        nodes = [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
        parts[name] = tuple(
            made(**{member: one[member] for member in known if member in one}) for one in nodes if known[0] in one
        )
    return Podcast(**parts, explicit=wire.get("explicit") is True)


def card_from_wire(wire: Mapping[str, Any]) -> Card:
    """Read a person or place that `card_to_wire` wrote."""
    return Card(type=wire.get("type", "card"), **{name: wire.get(_HYPHEN[name]) for name in _CARD})


def post_title(item: Mapping[str, object]) -> str:
    """A name for a post in a list, from its wire form."""
    content = item.get("content")
    text = content.get("text", "") if isinstance(content, Mapping) else ""
    for found in (item.get("name"), item.get("summary"), text, item.get("url")):
        if isinstance(found, str) and found.strip():
            return " ".join(found.split())[:120]
    return str(item.get("_id"))
