"""The form of items: the types that strict clients expect, and unusual posts."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from microsub_conformance.checks.requests.replies import nulls
from microsub_conformance.requirement import DESIGN, Chapter, client
from microsub_conformance.timeline import Item
from microsub_conformance.verdict import Violation, expect, same
from microsub_conformance.world import World

items = Chapter("items", anchor="Timelines", section="Items")

LISTS = ("category", "photo", "video", "audio", "syndication", "like-of", "repost-of", "bookmark-of", "in-reply-to")
STRINGS = (
    "url",
    "uid",
    "name",
    "summary",
    "published",
    "updated",
    "featured",
    "quotation-of",
    "rsvp",
    "start",
    "end",
    "type",
    "post-type",
)
CARDS = ("author", "checkin", "location")
CARD_STRINGS = ("type", "name", "url", "photo", "latitude", "longitude", "note", "locality", "region", "country-name")
IDENTIFIER = re.compile(r"[A-Za-z0-9_-]+")


def _gallery(w: World) -> list[Item]:
    channel = w.channel("gallery")
    wanted = 0
    blogs = [w.blogs.rich, w.blogs.hostile, w.blogs.podcast, w.blogs.pair]
    for blog in blogs:
        wanted += len(blog.posts)
        w.follow(channel, blog)
    return w.await_items(channel, wanted)


def gallery(w: World) -> list[Item]:
    """Items of every kind, in one channel."""
    return w.shared("a channel with posts of every kind", _gallery)


def _named(w: World, part: str) -> Item:
    """The item of the gallery whose URL or name contains `part`."""
    for item in gallery(w):
        if str(item.get("url", "")).endswith(part) or item.get("name") == part:
            return item
    raise Violation(f"an item for the post {part!r}", [item.get("url") for item in gallery(w)])


def _all(w: World, holds: Callable[[Item], bool], expected: str) -> None:
    for item in gallery(w):
        expect(holds(item), expected, item)


def _string_list(value: object) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(isinstance(part, str) for part in value)


@items.requirement("id")
def identifier(w: World) -> None:
    """'_id' is a string of [A-Za-z0-9_-]+, different for each item."""
    _all(w, lambda item: isinstance(item.get("_id"), str) and bool(IDENTIFIER.fullmatch(item["_id"])), "a string '_id'")
    found = [item["_id"] for item in gallery(w)]
    same(len(set(found)), len(found), "the number of different ids")


@items.requirement("is-read")
def is_read(w: World) -> None:
    """'_is_read' is a boolean on every item."""
    _all(w, lambda item: isinstance(item.get("_is_read"), bool), "a boolean '_is_read'")


@items.requirement("source", source=client("Monocle"))
def source(w: World) -> None:
    """'_source' is a string, safe as part of a path."""
    _all(
        w,
        lambda item: isinstance(item.get("_source"), str) and bool(IDENTIFIER.fullmatch(item["_source"])),
        "a string '_source' of [A-Za-z0-9_-]+",
    )


@items.requirement("channel", source=client("IndiePass desktop"))
def channel(w: World) -> None:
    """'_channel' is an object of 'id', 'uid' and 'name', strings, on every item."""

    def holds(item: Item) -> bool:
        value = item.get("_channel")
        return isinstance(value, dict) and all(isinstance(value.get(name), str) for name in ("id", "uid", "name"))

    _all(w, holds, "an object '_channel' of 'id', 'uid', 'name'")


@items.requirement("type")
def kind(w: World) -> None:
    """'type' is a jf2 type such as 'entry'."""
    _all(w, lambda item: isinstance(item.get("type"), str) and item["type"] != "", "a string 'type'")


@items.requirement("lists", source=client("Monocle, ek"))
def lists(w: World) -> None:
    """category, photo, video, audio, syndication, like-of, repost-of, bookmark-of, in-reply-to are lists of strings."""
    for name in LISTS:
        _all(w, lambda item, name=name: name not in item or _string_list(item[name]), f"'{name}' as a list of strings")  # type: ignore[misc]


@items.requirement("strings", source=client("Monocle, IndiePass Android"))
def strings(w: World) -> None:
    """Addresses, names, times and types are strings, not lists or numbers."""
    for name in STRINGS:
        _all(w, lambda item, name=name: name not in item or isinstance(item[name], str), f"'{name}' as a string")  # type: ignore[misc]


@items.requirement("cards", source=client("ek"))
def cards(w: World) -> None:
    """author, checkin and location are objects whose properties are strings."""
    for item in gallery(w):
        for name in CARDS:
            card = item.get(name)
            if card is None:
                continue
            expect(isinstance(card, dict), f"'{name}' as an object", item)
            for part in CARD_STRINGS:
                expect(part not in card or isinstance(card[part], str), f"'{name}.{part}' as a string", card)


@items.requirement("author", source=client("IndiePass Android"))
def author(w: World) -> None:
    """'author' is on every item."""
    _all(w, lambda item: isinstance(item.get("author"), dict), "an object 'author'")


@items.requirement("author-parts", source=DESIGN)
def author_parts(w: World) -> None:
    """The author's name, URL and photo are those of the feed."""
    card = _named(w, "/pair/post-1").get("author", {})
    same((card.get("type"), card.get("name"), card.get("url")), ("card", w.blogs.ben.name, w.blogs.ben.url), "author")


@items.requirement("author-filled", source=DESIGN)
def author_filled(w: World) -> None:
    """Missing properties of a post's author are filled from the feed."""
    card = _named(w, "/rich/article").get("author", {})
    ann = w.blogs.ann
    same((card.get("name"), card.get("url"), card.get("photo")), (ann.name, ann.url, ann.photo), "author")


@items.requirement("content")
def content(w: World) -> None:
    """'content' is an object of 'html' and 'text', both strings."""
    for item in gallery(w):
        if "content" in item:
            value = item["content"]
            fine = isinstance(value, dict) and all(isinstance(value.get(name), str) for name in ("html", "text"))
            expect(fine, "'content' with strings 'html' and 'text'", item)
    same(_named(w, "Dangerous markup").get("content", {}).get("text", "")[:12], "Visible text", "the text")


@items.requirement("no-null", source=client("IndiePass desktop"))
def no_null(w: World) -> None:
    """No property of an item is null or empty."""
    for item in gallery(w):
        expect(not nulls(item), "no null in an item", item)
        empty = [name for name, value in item.items() if value in ("", [], {})]
        expect(not empty, "no empty property in an item", {name: item[name] for name in empty})


@items.requirement("refs", source=client("Monocle"))
def refs(w: World) -> None:
    """'refs' maps URLs to objects, and is omitted when empty."""
    for item in gallery(w):
        if "refs" in item:
            value = item["refs"]
            fine = isinstance(value, dict) and value and all(isinstance(part, dict) for part in value.values())
            expect(bool(fine), "'refs' as an object of objects", item)


@items.requirement("published", source=client("ek"))
def published(w: World) -> None:
    """'published' and 'updated' are ISO 8601 with an offset."""
    for item in gallery(w):
        for name in ("published", "updated"):
            if name in item:
                instant(item, name)
        expect("published" in item, "'published' on every item", item)


def instant(item: Item, name: str = "published") -> datetime:
    """A time of an item. Raises Violation unless it is ISO 8601 with an offset."""
    try:
        value = datetime.fromisoformat(item.get(name, ""))
    except (ValueError, TypeError):
        raise Violation(f"'{name}' as ISO 8601", item.get(name)) from None
    if value.tzinfo is None:
        raise Violation(f"'{name}' with an offset", item.get(name))
    return value


@items.requirement("not-future", source=DESIGN)
def not_future(w: World) -> None:
    """A date in the future is clamped to the time of discovery."""
    found = instant(_named(w, "From the future"))
    now = datetime.now(UTC)
    expect(now - timedelta(days=1) < found <= now + timedelta(minutes=1), f"a time before {now.isoformat()}", found)


@items.requirement("sanitised")
def sanitised(w: World) -> None:
    """HTML contains no scripts, styles, forms, handlers or javascript: addresses."""
    html = _named(w, "Dangerous markup").get("content", {}).get("html", "")
    expect("Visible text" in html, "the visible text in the HTML", html)
    for bad in (
        "<script",
        "steal()",
        "onclick",
        "onerror",
        "<style",
        "<form",
        "<input",
        "javascript:",
        "<iframe",
    ):
        expect(bad not in html.lower(), f"no {bad!r} in the HTML", html)


@items.requirement("safe-urls")
def safe_urls(w: World) -> None:
    """No property has a javascript: address."""
    _all(w, lambda item: "javascript:" not in str(item), "no javascript: address")


@items.requirement("absolute")
def absolute(w: World) -> None:
    """Addresses in the content are absolute."""
    html = _named(w, "Relative addresses").get("content", {}).get("html", "")
    for found in re.findall(r'(?:href|src)="([^"]*)"', html):
        expect(found.startswith(("http://", "https://")), "absolute addresses in the HTML", html)
    expect(f"{w.publisher.base}/pictures/a.jpg" in html, "the image's absolute address", html)


@items.requirement("note-name", source=DESIGN)
def note_name(w: World) -> None:
    """A note has no 'name' that only repeats its content."""
    note = _named(w, "/rich/note")
    expect("name" not in note, "no 'name'", note)
    same(_named(w, "/rich/article").get("name"), "A real title", "the name of an article")


POST_TYPES = {
    "note": "note",
    "article": "article",
    "photo": "photo",
    "video": "video",
    "like": "like",
    "repost": "repost",
    "reply": "reply",
    "rsvp": "rsvp",
}


@items.requirement("post-type", source=DESIGN)
def post_type(w: World) -> None:
    """'post-type' follows the order of W3C Post Type Discovery."""
    for slug, wanted in POST_TYPES.items():
        same(_named(w, f"/rich/{slug}").get("post-type"), wanted, f"'post-type' of the post {slug!r}")


@items.requirement("responses", source=client("Monocle"))
def responses(w: World) -> None:
    """like-of, repost-of, bookmark-of and in-reply-to are lists of addresses."""
    for slug, name, target in (
        ("like", "like-of", "liked"),
        ("repost", "repost-of", "reposted"),
        ("bookmark", "bookmark-of", "kept"),
        ("reply", "in-reply-to", "asked"),
        ("syndicated", "syndication", "copy"),
    ):
        same(_named(w, f"/rich/{slug}").get(name), [f"https://elsewhere.example/{target}"], f"'{name}'")


@items.requirement("rsvp", source=DESIGN)
def rsvp(w: World) -> None:
    """'rsvp' is a string."""
    same(_named(w, "/rich/rsvp").get("rsvp"), "yes", "'rsvp'")


@items.requirement("checkin", source=client("ek"))
def checkin(w: World) -> None:
    """A checkin is a card with its coordinates as strings."""
    card: dict[str, Any] = _named(w, "/rich/checkin").get("checkin", {})
    found = (card.get("name"), card.get("url"), card.get("latitude"), card.get("longitude"))
    same(found, ("The Café", "https://cafe.example/", "52.5166", "13.4"), "name, url, latitude and longitude")


@items.requirement("enclosures", source=DESIGN)
def enclosures(w: World) -> None:
    """Attached files are in the lists 'audio', 'video' and 'photo'."""
    for name, suffix in (("audio", "mp3"), ("video", "mp4"), ("photo", "jpg")):
        found = _named(w, f"Episode with {name}").get(name)
        same(found, [f"{w.publisher.base}/{w.run}/files/one.{suffix}"], f"'{name}'")


@items.requirement("images-list", source=client("Monocle"))
def images_list(w: World) -> None:
    """The photo of a post is in 'photo'."""
    same(_named(w, "/rich/photo").get("photo"), [f"{w.publisher.base}/{w.run}/one.jpg"], "'photo'")
