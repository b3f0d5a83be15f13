"""The last step for all formats: sanitised bodies, safe URLs, authors, post types, limits."""

from __future__ import annotations

import heapq
import html as entities
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import datetime
from itertools import accumulate
from types import SimpleNamespace
from typing import Any, Generic, TypeVar, cast
from urllib.parse import urljoin

from microsub.base.errors import ParseError
from microsub.base.urls import (
    EXECUTABLE,
    MAX_URL,
    safe_url,
    without_redirect,
    without_secret_path,
    without_secrets,
    without_tracking,
)
from microsub.formats.entry_id import bounded, fold, is_teaser, post_type, says_no_more
from microsub.formats.html.sanitise import clean_html, text_to_html, with_links, without_images
from microsub.formats.html.text import html_to_text, in_one_line, without_controls
from microsub.formats.podcast import bounded_podcast
from microsub.formats.xml.media import kind_of
from microsub.model.jf2 import LINK_LISTS, Card, Content, Entry, Feed, Review

MAX_ENTRIES = 300
MAX_LIST = 100
MAX_LIST_SIZE = 50_000
"""Maximum characters of all addresses or tags in one list."""

MAX_REFS = 20
MAX_REF_BODIES = 200_000
"""Bytes of the bodies of all posts that an entry quotes or replies to, and of what these quote."""

MAX_NAME = 1000
MAX_WORD = 100
"""Characters of a value of a word or two: a media type, an answer to an invitation, a time, a coordinate."""

MAX_BODY = 500_000
"""Characters of one body, and bytes in UTF-8: about a tenth of a novel; longer ones are cut."""

MAX_BODIES = 3_000_000
"""Characters of all bodies of a document; when they are used up, the last bodies are cut to `SHORT_BODY`."""

SHORT_BODY = 5000
MAX_SUMMARY = 20_000
MAX_DESCRIPTION = 4000
MAX_BASE = 500


@dataclass(slots=True)
class RawEntry:
    """An entry as its format gives it, before cleaning. `entry` has everything except the bodies.

    `html` or `text` is the body; `base` is what its links are relative to (`xml:base` may differ between entries).
    `photos_in_body`: the entry's photos are marked up in its body, so showing both would show them twice.
    `collected`: the author is the feed that a planet took the entry from, so the planet's own data doesn't apply to
    that author. `is_cut`: the body isn't complete any more.
    """

    entry: Entry
    base: str
    html: str | None = None
    text: str | None = None
    summary_html: str | None = None
    photos_in_body: bool = False
    collected: bool = False
    is_cut: bool = False


T = TypeVar("T")


class Newest(Generic[T]):
    """Collects entries in document order and keeps at most `most`, in that order.

    If all entries have a date, the newest are kept, and for equal dates the earlier ones in the document. Otherwise the
    first ones are kept, because nearly all documents without dates list the newest first.
    """

    def __init__(self, when: Callable[[T], datetime | None], most: int = MAX_ENTRIES) -> None:
        self._when = when
        self._most = most
        self._count = 0
        self._first: list[T] = []
        self._dated: list[tuple[float, int, T]] | None = []

    def add(self, entry: T) -> None:
        """Add the next entry of the document."""
        self._count += 1
        if self._count <= self._most:
            self._first.append(entry)
            return
        if self._count == self._most + 1:
            for place, earlier in enumerate(self._first):
                self._rank(earlier, place)
        self._rank(entry, self._count - 1)

    def kept(self) -> list[T]:
        """The entries that are kept so far."""
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


def normalise(feed: Feed, entries: Sequence[RawEntry]) -> Feed:
    """The finished feed. Raises ParseError for a feed without entries and name, which can't be followed."""
    work = Finishing(feed, entries)
    finished = []
    for entry in work.entries:
        work.shorten(entry)
        finished.append(work.finish(entry))
    return replace(work.head, entries=tuple(finished))


class Finishing:
    """The newest entries of a document, in its order, and the context for finishing them.

    Each is shortened, then finished, one after the other, because they share the room for bodies. `head` is the feed
    without entries, `surroundings` everything in it that affects the entries.
    """

    def __init__(self, feed: Feed, entries: Sequence[RawEntry]) -> None:
        """Raises ParseError for a feed without entries and name, which can't be followed."""
        if not entries and not feed.name and not feed.home:
            raise ParseError(feed.url, "there is no feed in this document")
        self.entries = _newest(entry for entry in entries if _is_post(entry))
        names = {raw_entry.entry.author.name for raw_entry in self.entries if raw_entry.entry.author}
        self._fallback = _feed_author(feed)
        # If the feed names its author, an author with another name is a guest.
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
            name=_word(feed.name, MAX_NAME),
            description=feed.description
            and without_controls(feed.description[: 4 * MAX_DESCRIPTION])[:MAX_DESCRIPTION],
            author=feed.author and _safe_card(feed.author),
            entries=(),
        )
        self.head = replace(self._address.left_out(head), url=feed.url, self_url=feed.self_url)

    def shorten(self, raw: RawEntry) -> None:
        """Cut the texts of the next entry to the remaining room."""
        shorten(raw, min(MAX_BODY, max(self._room, SHORT_BODY)))

    def finish(self, raw: RawEntry) -> Entry:
        """The next entry, cleaned and completed after it was shortened."""
        entry = finish(raw, self._author(raw.entry.author, self._alone and not raw.collected), self._home)
        entry = self._address.left_out(entry)
        self.pass_over(body_size(entry))
        return entry

    def _author(self, author: Card | None, alone: bool) -> Card:
        """Complete an author; cached, because most entries of a document have the same one."""
        found = self._authors.get((author, alone))
        if found is None:
            found = self._authors[author, alone] = _author(author, self._fallback, alone, self._writer)
        return found

    def pass_over(self, size: int) -> None:
        """Skip the next entry, which is known; its cleaned body has `size` characters."""
        self._room -= size


_ADDRESS_ENDS = r"(?=[.,;:!?)\]]*(?:[\s\"'<>#]|\Z))"


class OwnAddress:
    """The address of a document, and the same address without its secrets.

    On a page, a fragment or an empty address resolves to the page's address, including a key; some feeds name their own
    address as their site's. Since posts are passed on, the address in them has no secrets. Other addresses keep their
    keys, which files need. In a page's path, random-looking parts stay, because its fragments may be posts; in all
    other documents they are removed.
    """

    def __init__(self, url: str, *, is_page: bool) -> None:
        page = url.partition("#")[0]
        if any(mark in page for mark in '"<>'):
            # In the form of links: in sanitised markup these characters delimit values and must stay.
            page = safe_url(page) or ""
        self._public = without_secrets(page) if is_page else without_secret_path(without_secrets(page))
        written = {page, page.replace("&", "&amp;")}
        self._secret = (
            re.compile(f"(?:{'|'.join(map(re.escape, written))}){_ADDRESS_ENDS}") if page != self._public else None
        )

    def left_out(self, value: T) -> T:
        """A jf2 value, or a part of one, with the address as others may see it."""
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
    """The length of a sanitised body in characters."""
    return len((entry.content and entry.content.html) or "")


def _size(text: str) -> int:
    """The bytes of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def _is_post(raw: RawEntry) -> bool:
    """Whether there is anything to read or open; some publishers' entries have only a date."""
    entry = raw.entry
    texts = (raw.html, raw.text, raw.summary_html, entry.name, entry.summary, entry.rsvp)
    if entry.url or any(text and not text.isspace() for text in texts):
        return True
    return bool(entry.enclosure or entry.checkin or any(getattr(entry, name) for name in (*_URLS, *LINK_LISTS)))


def _newest(entries: Iterable[RawEntry]) -> list[RawEntry]:
    """The newest entries, at most `MAX_ENTRIES`, in document order."""
    chosen: Newest[RawEntry] = Newest(lambda raw: raw.entry.published)
    for raw in entries:
        chosen.add(raw)
    return chosen.kept()


def shorten(raw: RawEntry, limit: int = MAX_BODY) -> None:
    """Cut texts to `limit`, and an overlong base, which would make all links too long, to its root."""
    whole = len(raw.html or ""), len(raw.text or "")
    raw.html, raw.text = raw.html and cut(raw.html, limit), raw.text and cut(raw.text, limit)
    raw.is_cut = raw.is_cut or whole != (len(raw.html or ""), len(raw.text or ""))
    raw.summary_html = raw.summary_html and cut(raw.summary_html, limit)
    if len(raw.base) > MAX_BASE:
        raw.base = urljoin(raw.base, "/")


def cut(text: str, most: int) -> str:
    """The beginning of a text: at most `most` characters, and `MAX_BODY` bytes in UTF-8."""
    text = text[:most]
    return text if _size(text) <= MAX_BODY else text.encode(errors="replace")[:MAX_BODY].decode(errors="ignore")


def content_of(html: str | None, text: str | None, base: str, page: str | None = None) -> Content | None:
    """A body as HTML and text, from whichever the publisher gave; None if nothing remains of it.

    `page` is the post's own address, if it has one.
    """
    if html:
        cleaned = with_links(clean_html(html, base, page))
        if _size(cleaned) > 2 * MAX_BODY:
            # Thousands of short relative links make a small body large, so only its text is kept.
            text = cut(html_to_text(cleaned), MAX_BODY)
            return Content(entities.escape(text, quote=False), text)
        return Content(cleaned, html_to_text(cleaned)) if cleaned else None
    if text and (text := without_controls(text).strip()):
        return Content(text_to_html(text), text)
    return None


def finish(raw: RawEntry, author: Card | None = None, home: str | None = None) -> Entry:
    """An entry, sanitised, with its post type; all strings are within this module's limits.

    `author` is its author as completed from the feed, `home` the feed's page.
    """
    entry = raw.entry
    page = safe_url(entry.url)
    content = content_of(raw.html, raw.text, raw.base, page and without_tracking(page))
    body = (content.text if content else None) or ""
    summary = entry.summary
    if raw.summary_html:
        summary = html_to_text(clean_html(raw.summary_html, raw.base))
    summary = without_controls(summary or "")[:MAX_SUMMARY]
    if not summary or is_teaser(summary, body):
        summary = None
    name = _word(entry.name, MAX_NAME) or ""
    name = "" if says_no_more(name, body or summary or "") else name
    if raw.photos_in_body and entry.photo and not name and content and content.html:
        # In an article, pictures belong in the text; in a note, `photo` shows them.
        content = replace(content, html=without_images(content.html, _safe_urls(entry.photo)))
    # All changes at once, because creating an entry costs more than everything else here.
    changes: dict[str, Any] = {
        "content": content,
        "is_cut": raw.is_cut,
        "summary": summary,
        "name": name or None,
        "author": author or (entry.author and _safe_card(entry.author)),
        "category": _distinct(_tag(tag) for tag in entry.category),
        "guid": entry.guid and bounded(entry.guid, MAX_URL),
        "uid": None if EXECUTABLE.match(entry.uid or "") else fold((entry.uid or "")[: 4 * MAX_URL])[:MAX_URL] or None,
        **_media(entry),
    }
    for field in _WORDS:
        if word := getattr(entry, field):
            changes[field] = _word(word)
    for field in _URLS:
        changes[field] = safe_url(getattr(entry, field))
    changes["url"] = changes["url"] and without_tracking(without_redirect(changes["url"]))
    if changes["url"] is None:
        files = changes.get("enclosure") or ()
        changes["fallback_url"] = files[0].url if files else changes["fallback_url"] or home
    for field in LINK_LISTS:
        if urls := getattr(entry, field):
            changes.setdefault(field, _safe_urls(urls))
    for field in ("checkin", "location"):
        if (place := getattr(entry, field)) is not None:
            changes[field] = _safe_card(place)
    if entry.podcast is not None:
        changes["podcast"] = bounded_podcast(entry.podcast)
    if entry.review is not None:
        changes["review"] = safe_review(entry.review)
    if entry.refs:
        refs = list(entry.refs.items())[:MAX_REFS]
        changes["refs"] = dict(_bounded_refs(refs))
    values = {name: changes[name] if name in changes else getattr(entry, name) for name in _FIELDS}
    values["post_type"] = values["post_type"] or post_type(cast("Entry", SimpleNamespace(**values)))
    if values["photo"] and content and content.html and not raw.photos_in_body:
        _show_once(values, content)
    return Entry(**values)


def _bounded_refs(refs: Iterable[tuple[str, Entry | Card]]) -> Iterator[tuple[str, Entry | Card]]:
    """The posts and people that an entry is about; beyond `MAX_REF_BODIES` they have no quoted posts or no body."""
    room = MAX_REF_BODIES
    for url, ref in refs:
        if isinstance(ref, Card):
            yield url, _safe_card(ref)
            continue
        forms = (ref, replace(ref, refs={}), replace(ref, content=None, refs={}))
        kept = next(one for one in forms if _size_with_refs(one) <= room)
        room -= _size_with_refs(kept)
        yield url, kept


def _size_with_refs(entry: Entry) -> int:
    content = entry.content or Content()
    own = max(_size(content.html or ""), _size(content.text or ""))
    return own + sum(_size_with_refs(ref) for ref in entry.refs.values() if isinstance(ref, Entry))


def _show_once(values: dict[str, Any], content: Content) -> None:
    """Remove pictures that are listed and in the body from one of both: from an article's list, or a note's body.

    An article keeps the first as its main picture, if it names no other.
    """
    html = content.html or ""
    twice = [url for url in values["photo"] if f'src="{entities.escape(url)}"' in html]
    if twice and values["name"]:
        values["photo"] = tuple(url for url in values["photo"] if url not in twice)
        values["featured"] = values["featured"] or twice[0]
    elif twice:
        values["content"] = replace(content, html=without_images(html, twice))


_FIELDS = tuple(field.name for field in fields(Entry))
_CARD_TEXTS = ("note", "street_address", "locality", "region", "country_name")
_CARD_WORDS = ("type", "latitude", "longitude")
_WORDS = ("type", "post_type", "rsvp", "start", "end")
_URLS = ("url", "fallback_url", "featured", "quotation_of")


def _word(text: str | None, most: int = MAX_WORD) -> str | None:
    """A short text in one line."""
    return in_one_line((text or "")[: 4 * most])[:most] or None


def _tag(text: str) -> str:
    tag = (_word(text, MAX_NAME) or "").lstrip("#")
    return "" if EXECUTABLE.match(tag) else tag


def _media(entry: Entry) -> dict[str, Any]:
    """The enclosures, and the media lists with the enclosures' pictures, videos and sounds at the end."""
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
    """The author of entries that name none: the feed's author, completed from the feed itself."""
    author = feed.author or Card()
    home, url = feed.home or None, safe_url(author.url)
    # As in `_author`: an author with another address doesn't get the feed's title as name.
    title = feed.name if url in {None, home} else None
    # A feed without an author is its own author, with its own picture; a podcast's cover is its author's picture too.
    # For the author of a page, the picture is looked up on pages (`lookups`).
    its_own = feed.author is None or (url in {None, home} and feed.format != "h-feed")
    photo = author.photo or (feed.photo if its_own else None)
    return Card(name=_word(author.name or title, MAX_NAME), url=url or home, photo=safe_url(photo))


def _author(author: Card | None, fallback: Card, alone: bool, writer: str | None) -> Card:
    """The entry's author, with gaps filled from the feed's author.

    Gaps are filled for the same person, and if only one person writes here (`alone`). A planet's many authors must not
    all get the planet's address, nor a guest the host's. An author with another address doesn't get the page's title as
    name, only the name of the feed's `writer`: the page at that address knows better (`lookups`).
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


def safe_review(review: Review) -> Review | None:
    """A review with short texts; None for one without a rating and an item."""
    found = Review(_word(review.rating), _word(review.best), review.item and _safe_card(review.item))
    return found if found != Review(best=found.best) else None


def _safe_urls(urls: Iterable[str]) -> tuple[str, ...]:
    return _distinct(url for value in urls if (url := safe_url(value)))


def _distinct(values: Iterable[str]) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(value for value in values if value))[:MAX_LIST]
    if sum(map(len, found)) > MAX_LIST_SIZE:
        sizes = accumulate(map(len, found))
        found = tuple(value for value, size in zip(found, sizes, strict=True) if size <= MAX_LIST_SIZE)
    return found
