"""The last step of all formats: cleaned bodies, safe URLs, authors, post types, limits."""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import datetime
from itertools import accumulate
from types import SimpleNamespace
from typing import Any, Generic, TypeVar, cast
from urllib.parse import urljoin

from microsub.errors import ParseError
from microsub.formats.entry_id import bounded, fold, is_beginning, post_type, says_no_more
from microsub.formats.html.sanitise import clean_html, text_to_html, without_images
from microsub.formats.html.text import html_to_text, without_controls
from microsub.formats.xml.media import kind_of
from microsub.kit.urls import EXECUTABLE, MAX_URL, safe_url, without_secret_path, without_secrets, without_tracking
from microsub.model.jf2 import Card, Content, Entry, Feed

MAX_ENTRIES = 300
MAX_LIST = 100
MAX_LIST_SIZE = 50_000
"""Characters of all addresses or tags of one list."""

MAX_REFS = 20
MAX_NAME = 1000
MAX_WORD = 100
"""Characters of what is a word or two: a media type, an answer to an invitation, a time, a coordinate."""

MAX_BODY = 500_000
"""Characters of one body, about a novel's tenth part; what is longer is cut."""

MAX_BODIES = 3_000_000
"""Characters of all bodies of a document; those of its last entries are cut to `SHORT_BODY` when they are used up."""

SHORT_BODY = 5000
MAX_SUMMARY = 20_000
MAX_DESCRIPTION = 4000
MAX_BASE = 500


@dataclass(slots=True)
class RawEntry:
    """One entry as its format has it, before cleaning. `entry` carries everything but bodies.

    `html` or `text` is the body, `base` what its links are relative to (`xml:base` may differ from entry to entry).
    `photos_in_body`: the pictures of the entry are those of its body, marked up there, so that a reader who shows both
    would show them twice. `collected`: the author is the feed which a planet took the entry from, so what the planet
    says of itself isn't true of that one.
    """

    entry: Entry
    base: str
    html: str | None = None
    text: str | None = None
    summary_html: str | None = None
    photos_in_body: bool = False
    collected: bool = False


@dataclass(slots=True)
class RawFeed:
    """A document before cleaning."""

    feed: Feed
    entries: list[RawEntry]


T = TypeVar("T")


class Newest(Generic[T]):
    """Takes entries in document order and keeps at most `most`, in that order.

    Where all entries have a date, the newest are kept, the earlier ones in the document where dates agree; else the
    first ones: documents without dates are taken for newest first, as nearly all are.
    """

    def __init__(self, when: Callable[[T], datetime | None], most: int = MAX_ENTRIES) -> None:
        self._when = when
        self._most = most
        self._count = 0
        self._first: list[T] = []
        self._dated: list[tuple[float, int, T]] | None = []

    def add(self, entry: T) -> None:
        """The next entry of the document."""
        self._count += 1
        if self._count <= self._most:
            self._first.append(entry)
            return
        if self._count == self._most + 1:
            for place, earlier in enumerate(self._first):
                self._rank(earlier, place)
        self._rank(entry, self._count - 1)

    def kept(self) -> list[T]:
        """What is left of all entries so far."""
        if self._count <= self._most or self._dated is None:
            return self._first
        return [entry for _, _, entry in sorted(self._dated, key=lambda ranked: -ranked[1])]

    def _rank(self, entry: T, place: int) -> None:
        if self._dated is None:
            return
        moment = self._when(entry)
        if moment is None:
            self._dated = None
        elif len(self._dated) < self._most:
            heapq.heappush(self._dated, (moment.timestamp(), -place, entry))
        else:
            heapq.heappushpop(self._dated, (moment.timestamp(), -place, entry))


def normalise(raw: RawFeed) -> Feed:
    """The finished feed. Raises ParseError for one without entry and name: nothing to follow."""
    work = Finishing(raw)
    entries = []
    for entry in work.entries:
        work.shorten(entry)
        entries.append(work.finish(entry))
    return replace(work.head, entries=tuple(entries))


class Finishing:
    """The newest entries of a document, `entries` in its order, and what they are finished with.

    Each is shortened, then finished, one after the other: the room for bodies is theirs together. `head` is the feed
    without entries, `surroundings` all of it that entries become what they are by.
    """

    def __init__(self, raw: RawFeed) -> None:
        """Raises ParseError where there is nothing to follow: no entry and no name."""
        feed = raw.feed
        if not raw.entries and not feed.name and not feed.home:
            raise ParseError(feed.url, "there is no feed in this document")
        self.entries = _newest(entry for entry in raw.entries if _is_post(entry))
        names = {raw_entry.entry.author.name for raw_entry in self.entries if raw_entry.entry.author}
        self._fallback = _feed_author(feed)
        # Where the feed says who its author is, who is named otherwise is a guest.
        named = feed.author and feed.author.url and feed.author.name
        self._alone = not named and len(names) <= 1
        self._writer = feed.author.name if feed.author else None
        self._room = MAX_BODIES
        self._authors: dict[tuple[Card | None, bool], Card] = {}
        self._home = safe_url(feed.home)
        self.surroundings = (self._fallback, self._alone, self._writer, self._home)
        self._address = OwnAddress(feed.url, is_page=feed.format == "h-feed")
        head = replace(
            feed,
            name=feed.name and without_controls(feed.name[: 4 * MAX_NAME])[:MAX_NAME],
            description=feed.description
            and without_controls(feed.description[: 4 * MAX_DESCRIPTION])[:MAX_DESCRIPTION],
            author=feed.author and _safe_card(feed.author),
            entries=(),
        )
        self.head = replace(self._address.left_out(head), url=feed.url, self_url=feed.self_url)

    def shorten(self, raw: RawEntry) -> None:
        """Cut the texts of the next entry to the room that there is."""
        shorten(raw, min(MAX_BODY, max(self._room, SHORT_BODY)))

    def finish(self, raw: RawEntry) -> Entry:
        """The next entry, which was shortened, cleaned and completed."""
        entry = finish(raw, self._author(raw.entry.author, self._alone and not raw.collected), self._home)
        entry = self._address.left_out(entry)
        self.pass_over(body_size(entry))
        return entry

    def _author(self, author: Card | None, alone: bool) -> Card:
        """Most entries of a document have the same author, who is completed once."""
        found = self._authors.get((author, alone))
        if found is None:
            found = self._authors[author, alone] = _author(author, self._fallback, alone, self._writer)
        return found

    def pass_over(self, size: int) -> None:
        """The next entry needn't be finished; its cleaned body has that many characters."""
        self._room -= size


_ADDRESS_ENDS = r"(?=[.,;:!?)\]]*(?:[\s\"'<>#]|\Z))"


class OwnAddress:
    """Where a document was found, and that address without the secrets in it.

    A fragment, or an empty address, on a page means the page, key included; some feeds name their address as their
    site's. Posts are passed on, so there the address has no secrets. Other addresses with keys stay: files need them.
    So does what looks random in the path of a page, whose fragments may be posts; of all other documents it goes.
    """

    def __init__(self, url: str, *, is_page: bool) -> None:
        page = url.partition("#")[0]
        if any(mark in page for mark in '"<>'):
            # As links have it: in cleaned markup these marks are around values, and have to stay.
            page = safe_url(page) or ""
        self._public = without_secrets(page) if is_page else without_secret_path(without_secrets(page))
        written = {page, page.replace("&", "&amp;")}
        self._secret = (
            re.compile(f"(?:{'|'.join(map(re.escape, written))}){_ADDRESS_ENDS}") if page != self._public else None
        )

    def left_out(self, value: T) -> T:
        """`value`, a value of jf2 or a part of one, with the address as others may see it."""
        return value if self._secret is None else cast("T", self._without(value, self._secret))

    def _without(self, value: Any, secret: re.Pattern[str]) -> Any:
        if isinstance(value, str):
            return secret.sub(lambda _: self._public, value)
        if isinstance(value, tuple):
            return tuple(self._without(one, secret) for one in value)
        if isinstance(value, Mapping):
            return {self._without(name, secret): self._without(one, secret) for name, one in value.items()}
        if is_dataclass(value) and not isinstance(value, type):
            return replace(
                value, **{one.name: self._without(getattr(value, one.name), secret) for one in fields(value)}
            )
        return value


def body_size(entry: Entry) -> int:
    """Characters of a cleaned body."""
    return len((entry.content and entry.content.html) or "")


def _is_post(raw: RawEntry) -> bool:
    """Whether there is anything to read or open; some publishers' entries have but a date."""
    entry = raw.entry
    texts = (raw.html, raw.text, raw.summary_html, entry.name, entry.summary, entry.rsvp)
    if entry.url or any(text and not text.isspace() for text in texts):
        return True
    return bool(entry.enclosure or entry.checkin or any(getattr(entry, name) for name in (*_URLS, *_URL_LISTS)))


def _newest(entries: Iterable[RawEntry]) -> list[RawEntry]:
    """At most `MAX_ENTRIES`, in document order."""
    chosen: Newest[RawEntry] = Newest(lambda raw: raw.entry.published)
    for raw in entries:
        chosen.add(raw)
    return chosen.kept()


def shorten(raw: RawEntry, limit: int = MAX_BODY) -> None:
    """Cut texts to `limit`, and a base that would make every link too long to its root."""
    raw.html, raw.text = raw.html and raw.html[:limit], raw.text and raw.text[:limit]
    raw.summary_html = raw.summary_html and raw.summary_html[:limit]
    if len(raw.base) > MAX_BASE:
        raw.base = urljoin(raw.base, "/")


def content_of(html: str | None, text: str | None, base: str) -> Content | None:
    """A body both ways, from whichever the publisher gave; None where nothing of it remains."""
    if html:
        cleaned = without_controls(clean_html(html, base))
        if len(cleaned) > 2 * MAX_BODY:
            # Thousands of short relative links make a small body large; its words are what is left of it.
            return content_of(None, html_to_text(cleaned)[:MAX_BODY], base)
        return Content(cleaned, html_to_text(cleaned)) if cleaned else None
    if text and (text := without_controls(text).strip()):
        return Content(text_to_html(text), text)
    return None


def finish(raw: RawEntry, author: Card | None = None, home: str | None = None) -> Entry:
    """One entry cleaned, with its post type; no string in it is longer than this module says.

    `author` is what the feed around it made of its author, `home` the page of that feed.
    """
    entry = raw.entry
    content = content_of(raw.html, raw.text, raw.base)
    body = (content.text if content else None) or ""
    summary = entry.summary
    if raw.summary_html:
        summary = html_to_text(clean_html(raw.summary_html, raw.base))
    summary = without_controls(summary or "")[:MAX_SUMMARY]
    if not summary or is_beginning(summary, body):
        summary = None
    name = _word(entry.name, MAX_NAME) or ""
    name = "" if says_no_more(name, body or summary or "") else name
    if raw.photos_in_body and entry.photo and not name and content and content.html:
        # In an article pictures have their place; in a note they are what `photo` shows.
        content = replace(content, html=without_images(content.html, _safe_urls(entry.photo)))
    # One entry made of all: that costs more than everything else here.
    changes: dict[str, Any] = {
        "content": content,
        "summary": summary,
        "name": name or None,
        "author": author or (entry.author and _safe_card(entry.author)),
        "category": _distinct(_tag(tag) for tag in entry.category),
        "guid": entry.guid and bounded(entry.guid, MAX_URL),
        "uid": None if entry.uid and EXECUTABLE.match(entry.uid) else _word(entry.uid, MAX_URL),
        **_media(entry),
    }
    for field in _WORDS:
        if word := getattr(entry, field):
            changes[field] = _word(word)
    for field in _URLS:
        changes[field] = safe_url(getattr(entry, field))
    changes["url"] = changes["url"] and without_tracking(changes["url"])
    if changes["url"] is None:
        files = changes.get("enclosure") or ()
        changes["fallback_url"] = files[0].url if files else changes["fallback_url"] or home
    for field in _URL_LISTS:
        if urls := getattr(entry, field):
            changes.setdefault(field, _safe_urls(urls))
    for field in ("checkin", "location"):
        if (place := getattr(entry, field)) is not None:
            changes[field] = _safe_card(place)
    if entry.refs:
        refs = list(entry.refs.items())[:MAX_REFS]
        changes["refs"] = {url: _safe_card(ref) if isinstance(ref, Card) else ref for url, ref in refs}
    values = {name: changes[name] if name in changes else getattr(entry, name) for name in _FIELDS}
    values["post_type"] = values["post_type"] or post_type(cast("Entry", SimpleNamespace(**values)))
    return Entry(**values)


_FIELDS = tuple(field.name for field in fields(Entry))
_CARD_TEXTS = ("note", "street_address", "locality", "region", "country_name")
_CARD_WORDS = ("type", "latitude", "longitude")
_WORDS = ("type", "post_type", "rsvp", "start", "end")
_URLS = ("url", "fallback_url", "featured", "quotation_of")
_URL_LISTS = (
    *("photo", "video", "audio", "syndication"),
    *("like_of", "repost_of", "bookmark_of", "follow_of", "in_reply_to"),
)


def _word(text: str | None, most: int = MAX_WORD) -> str | None:
    """A short text on one line."""
    return fold((text or "")[: 4 * most])[:most] or None


def _tag(text: str) -> str:
    tag = (_word(text, MAX_NAME) or "").lstrip("#")
    return "" if EXECUTABLE.match(tag) else tag


def _media(entry: Entry) -> dict[str, Any]:
    """Enclosures; pictures, films and sound among them stand behind those of the format itself."""
    if not entry.enclosure:
        return {}
    room = MAX_LIST_SIZE
    enclosures = []
    for declared in entry.enclosure[:MAX_LIST]:
        if url := safe_url(declared.url):
            title = _word(declared.title, MAX_NAME)
            room -= len(url) + len(title or "")
            if room < 0:
                break
            enclosures.append(replace(declared, url=url, type=_word(declared.type), title=title))
    by_kind: dict[str, list[str]] = {"photo": [*entry.photo], "video": [*entry.video], "audio": [*entry.audio]}
    for enclosure in enclosures:
        if kind := kind_of(enclosure):
            by_kind[kind].append(enclosure.url)
    return {"enclosure": tuple(enclosures), **{kind: _safe_urls(urls) for kind, urls in by_kind.items()}}


def _feed_author(feed: Feed) -> Card:
    """Who stands behind entries that don't say: the feed's author, completed by the feed itself."""
    author = feed.author or Card()
    home, url = feed.home or None, safe_url(author.url)
    # As in `_author`: who has an address elsewhere isn't called by the feed's title.
    title = feed.name if url in {None, home} else None
    # A feed that names nobody is its own author, with its own picture; the cover of a podcast is its author's, too. The
    # pictures of a page's author are on pages (`lookups`).
    its_own = feed.author is None or (url in {None, home} and feed.format != "h-feed")
    photo = author.photo or (feed.photo if its_own else None)
    return Card(name=_word(author.name or title, MAX_NAME), url=url or home, photo=safe_url(photo))


def _author(author: Card | None, fallback: Card, alone: bool, writer: str | None) -> Card:
    """The entry's author with gaps filled from the feed's.

    That is right for the same person, and for the only one who writes here (`alone`); but a planet's many authors must
    not all get the planet's address, nor a guest the host's. Who has an address elsewhere isn't called by the title
    of the page, only by the name that the feed gives its `writer`: the page at that address knows better (`lookups`).
    """
    if author is None or not (author.name or author.url):
        return fallback
    card = _safe_card(author)
    same = (card.name is not None and card.name == fallback.name) or card.url == fallback.url
    if not same and not alone:
        return card
    return replace(
        card,
        name=card.name or (fallback.name if card.url in {None, fallback.url} else writer),
        url=card.url or fallback.url,
        photo=card.photo or (fallback.photo if card.url in {None, fallback.url} else None),
    )


def _safe_card(card: Card) -> Card:
    texts = {name: without_controls(text[:MAX_NAME]) for name in _CARD_TEXTS if (text := getattr(card, name))}
    texts |= {name: _word(word) or "" for name in _CARD_WORDS if (word := getattr(card, name))}
    return replace(
        card,
        **texts,
        name=_word(card.name, MAX_NAME),
        url=safe_url(card.url),
        photo=safe_url(card.photo),
    )


def _safe_urls(urls: Iterable[str]) -> tuple[str, ...]:
    return _distinct(url for value in urls if (url := safe_url(value)))


def _distinct(values: Iterable[str]) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(value for value in values if value))[:MAX_LIST]
    if sum(map(len, found)) > MAX_LIST_SIZE:
        sizes = accumulate(map(len, found))
        found = tuple(value for value, size in zip(found, sizes, strict=True) if size <= MAX_LIST_SIZE)
    return found
