"""Posts as pages show them: their kinds, and the places of their properties."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from html import unescape
from typing import Any
from urllib.parse import urlsplit

from markupsafe import Markup

from microsub.articles import goes_on
from microsub.base.bounded_cache import BoundedCache
from microsub.base.clock import DAY
from microsub.base.texts import N_
from microsub.base.urls import mask_credentials, without_credentials
from microsub.feeds import NOTICES, FeedRecord, Feeds, InternalAddress
from microsub.formats.entry_id import post_type
from microsub.formats.html.sanitise import text_to_html
from microsub.formats.html.text import html_to_text
from microsub.formats.wire import from_wire
from microsub.model.jf2 import Card, Content, Entry, Podcast, PodcastChapter, Review
from microsub.model.reader import NOTIFICATIONS
from microsub.model.words import count_words
from microsub.reader.places import POST
from microsub.reader.reading.body import (
    MOST_SHOWN,
    ImageAddress,
    beginning_of,
    body_fitter,
    excerpt,
    nowhere,
    with_moments,
)
from microsub.reader.reading.hits import NO_HITS, SearchHits
from microsub.reader.reading.images import Images
from microsub.timelines import OwnNames
from microsub.web.visit import PageVisit

_TARGETS = ("like_of", "repost_of", "bookmark_of", "in_reply_to", "follow_of")
_MOST_TARGETS, _MOST_PHOTOS, _MOST_FILES, _MOST_CATEGORIES = 3, 12, 6, 12
_MEGABYTE = 1024 * 1024
FACES_KEPT = 60.0
_MOST_FACES = 10_000
_WORDS_A_MINUTE = 230
ROWS = frozenset({"list", "cards"})
"""The views that show no bodies."""
_ROOM = {"cards": 150, "full": 300}
"""Characters of an excerpt that are seen for certain; in a list, it shares its line with the title."""
_IMAGE = re.compile(r'<img [^>]*?src="(https?://[^"]+)"')
_TROUBLED = re.compile(r"(?:gone|unreadable):([0-9]+):", re.ASCII)
"""The uid of a notice about a feed (`notices.feed_trouble`)."""
PLAYED = frozenset({"video", "audio"})
"""Kinds of files for which a post's own page has a player."""


@dataclass(frozen=True, slots=True)
class ContextView:
    """A page that a post replies to, likes or reposts; `relation` is the property's name."""

    relation: str
    url: str
    title: str
    author: str
    text: str


@dataclass(frozen=True, slots=True)
class FileView:
    """A media file or download: `kind` is `video`, `audio` or `file`; lengths and sizes are 0 if unknown."""

    kind: str
    url: str
    title: str
    seconds: int = 0
    megabytes: int = 0


@dataclass(frozen=True, slots=True)
class PostView:
    """A post in a user's timeline. Links are web addresses, pictures have proxy addresses; `body` is safe HTML.

    `published` is Unix time, 0 for none; `minutes` is the time for reading, 0 if it isn't shown; `is_cut`: the rest of
    the body is on the post's own page, or at `url`. `hits` marks what a search has found. `troubled` is the id of the
    feed that a notice says can't be read, empty for other posts.
    """

    id: str
    channel: str
    channel_name: str
    source: str
    source_name: str
    source_photo: str
    is_read: bool
    is_saved: bool
    kind: str
    url: str
    title: str
    author: str
    author_url: str
    author_photo: str
    published: float
    body: Markup
    is_cut: bool
    lead: str
    thumbnail: str
    photos: Sequence[tuple[str, str]]
    files: Sequence[FileView]
    contexts: Sequence[ContextView]
    rsvp: str
    start: str
    end: str
    place: str
    categories: Sequence[str]
    podcast: Podcast
    chapters: Sequence[PodcastChapter]
    review: Review | None
    minutes: int = 0
    hits: SearchHits = NO_HITS
    troubled: str = ""

    @property
    def sound(self) -> str:
        """The address of the first audio file, empty for none."""
        return next((file.url for file in self.files if file.kind == "audio"), "")

    @property
    def seconds(self) -> int:
        """How long the first audio file plays, or else the first video; 0 if that is unknown, and without one."""
        played = sorted((file for file in self.files if file.kind != "file"), key=lambda file: file.kind)
        return played[0].seconds if played else 0

    @property
    def may_be_cut(self) -> bool:
        """Whether the page that it links to may have more of it."""
        return bool(self.url and not self.troubled) and (
            self.kind == "article" or (self.kind == "note" and goes_on(self.body.striptags()))
        )

    @property
    def path(self) -> str:
        """The address of the post's own page."""
        return f"{POST}/{self.id}{self.hits.query}"

    @property
    def heading(self) -> str:
        """A name for the post: its title, otherwise its author, otherwise its feed."""
        return self.title or self.author or self.source_name or self.url

    @property
    def origin(self) -> str:
        """A name for where the post is from: its feed, otherwise its author, otherwise its channel."""
        return self.source_name or self.author or self.channel_name


Listed = PostView | float
"""A post, or the Unix time of one that can't be read at the moment, 0 if unknown."""


def in_order(posts: Sequence[PostView], away: Iterable[Mapping[str, str]], *, oldest_first: bool) -> list[Listed]:
    """The posts of a page in order, with those that are `_unavailable` in their places; undated ones as the oldest."""
    listed: list[Listed] = [*posts]
    for one in away:
        time = datetime.fromisoformat(one["published"]).timestamp() if "published" in one else 0.0
        later = (place for place, post in enumerate(listed) if (_published(post) > time) == oldest_first)
        listed.insert(next(later, len(listed)), time)
    return listed


def _published(post: Listed) -> float:
    return post.published if isinstance(post, PostView) else post


def grouped(posts: Sequence[Listed], by: str) -> list[tuple[float | str, Listed]]:
    """The posts with the heading before each, empty for none: its day at 0:00 UTC in Unix time, or its feed's name.

    By feed, each feed's posts stay in their order, and the feeds are in the order of their first posts.
    """
    groups = [_group(post, by) for post in posts]
    first = {group: place for place, group in reversed([*enumerate(groups)])}
    order = sorted(range(len(posts)), key=lambda place: first[groups[place]])
    return [(_heading(posts[place], by) if place == first[groups[place]] else "", posts[place]) for place in order]


def _group(post: Listed, by: str) -> float | str:
    if by == "day":
        return _published(post) // DAY
    return post.source if by == "feed" and isinstance(post, PostView) else ""


def _heading(post: Listed, by: str) -> float | str:
    if by == "day":
        return _published(post) // DAY * DAY or ""
    return post.origin if by == "feed" and isinstance(post, PostView) else ""


@dataclass(frozen=True, slots=True)
class PostForms:
    """Input for views of posts: addresses of pictures, faces of feeds, the view, and what to mark; if
    they are `timed`, they say how long reading takes. `picture` is the word for one without a description;
    notices of this server are shown as `said` in the page's language; links to what
    it `leaves` for open a tab.

    Bodies are complete in the view "whole"; "list" and "cards" have only a beginning as text, the lead.
    """

    image: ImageAddress
    feeds: Mapping[str, tuple[str, str, str]]
    view: str = "full"
    hits: SearchHits = NO_HITS
    timed: bool = False
    picture: str = ""
    said: Callable[[str], str] = str
    leaves: Callable[[str], bool] = nowhere

    def views(self, items: Sequence[Mapping[str, Any]]) -> list[PostView]:
        """The items of a page."""
        fit = body_fitter(self.image, self.hits, self.picture, self.leaves)
        return [self._view(item, from_wire(item), fit) for item in items]

    def _view(self, item: Mapping[str, Any], entry: Entry, fit: Callable[[str], str]) -> PostView:
        channel, source = item["_channel"], str(item.get("_source", ""))
        if channel["uid"] == NOTIFICATIONS:
            entry = _notice_in(entry, self.said)
        author = entry.author or Card()
        source_name, source_photo, kind = self.feeds.get(source, ("", "", ""))
        body, is_cut = self._body(entry, fit)
        files = _named([*_files(entry)][:_MOST_FILES])
        if body and (sound := next((file for file in files if file.kind == "audio"), None)) is not None:
            body = with_moments(body, sound.url, 60 * -(-sound.seconds // 60))
        about = _TROUBLED.match(entry.uid or "") if kind == NOTICES else None
        return PostView(
            id=item["_id"],
            channel=channel["uid"],
            channel_name=channel["name"],
            source=source,
            source_name=source_name,
            source_photo=self._picture(source_photo),
            is_read=bool(item.get("_is_read")),
            is_saved=bool(item.get("_saved")),
            kind=entry.post_type or post_type(entry),
            url=web(entry.url or entry.fallback_url),
            title=(entry.name or "").strip(),
            author=author.name or _host(author.url),
            author_url=web(author.url),
            author_photo=self._picture(author.photo),
            published=entry.published.timestamp() if entry.published else 0.0,
            body=Markup(body),  # noqa: S704 - what the sanitiser has just written
            is_cut=is_cut,
            lead=_lead(entry, self.hits, self.view) if self.view in ROWS else "",
            thumbnail=self._picture(_first_picture(entry)) if self.view == "cards" else "",
            photos=[(self.image(url), _described(entry, url)) for url in _photos(entry)[:_MOST_PHOTOS] if web(url)],
            files=files,
            contexts=[*_contexts(entry)],
            rsvp=entry.rsvp or "",
            start=entry.start or "",
            end=entry.end or "",
            place=_place(entry.checkin or entry.location),
            categories=[name for name in entry.category if not web(name)][:_MOST_CATEGORIES],
            podcast=entry.podcast or Podcast(),
            chapters=shown_chapters(entry.podcast.chapter if entry.podcast is not None else ()),
            review=entry.review,
            minutes=_minutes(entry) if self.timed else 0,
            hits=self.hits,
            troubled=about[1] if channel["uid"] == NOTIFICATIONS and about is not None else "",
        )

    def _picture(self, url: str | None) -> str:
        return self.image(url) if url and web(url) else ""

    def _body(self, entry: Entry, fit: Callable[[str], str]) -> tuple[str, bool]:
        if self.view in ROWS:
            return "", False
        content = entry.content
        html = content.html if content is not None and content.html else None
        text = (content.text if content is not None else None) or entry.summary or ""
        if html is None:
            html = "".join(f"<p>{Markup.escape(part)}</p>" for part in text.split("\n\n") if part.strip())
        if self.view == "whole":
            shown = beginning_of(html)
            return fit(shown), entry.is_cut or len(shown) < len(html)
        if len(html) <= MOST_SHOWN:
            return fit(html), False
        return f"<p>{self.hits.text(_lead(entry, self.hits, self.view))}</p>", True


def _notice_in(entry: Entry, said: Callable[[str], str]) -> Entry:
    """A notice of this server in the page's language; other posts as they are."""
    text = (entry.content.text if entry.content is not None else None) or ""
    name, told = said(entry.name or ""), said(text)
    if told == text or name == (entry.name or ""):  # a mention by others may look like one of the two
        return entry
    return replace(entry, name=name, content=Content(text_to_html(told), told))


def shown_chapters(chapters: Iterable[PodcastChapter]) -> list[PodcastChapter]:
    """Chapters as pages show them: with addresses on the web alone, and without passwords in these."""
    return [replace(one, title=one.title or "", url=without_credentials(web(one.url))) for one in chapters]


def web(url: str | None) -> str:
    """`url` if it is a web address, otherwise empty."""
    return url if url and url.startswith(("http://", "https://")) else ""


def _host(url: str | None) -> str:
    try:
        return (urlsplit(url or "").hostname or "").removeprefix("www.")
    except ValueError:
        return ""


def _photos(entry: Entry) -> Sequence[str]:
    """The pictures that are shown next to the body, not in it."""
    html = entry.content.html or "" if entry.content is not None else ""
    # A player in the body shows its still.
    listed = entry.photo or ((entry.featured,) if entry.featured and "<iframe" not in html else ())
    return [url for url in listed if Markup.escape(url) not in html]


def _lead(entry: Entry, hits: SearchHits, view: str) -> str:
    """The beginning of the post as text, without its title, or the part that a search has found."""
    content, summary = entry.content, entry.summary or ""
    text = (content.text if content is not None else None) or ""
    if not (summary or text):
        text = html_to_text(content.html if content is not None and content.html else "")
    room = _ROOM.get(view, _ROOM["full"]) if view != "list" else max(9, min(60, 75 - len(entry.name or "")))
    return hits.excerpt(room, excerpt(summary or text), summary, text)


def _minutes(entry: Entry) -> int:
    """Minutes for reading the post, one at least; 0 without text."""
    text = (entry.content.text if entry.content is not None else None) or ""
    return -(-count_words(text) // _WORDS_A_MINUTE)


def _first_picture(entry: Entry) -> str:
    """The picture of a post that shows only one."""
    listed = entry.featured or next(iter(entry.photo), "")
    if listed or entry.content is None or not entry.content.html:
        return listed
    return unescape(found[1]) if (found := _IMAGE.search(entry.content.html)) else ""


def _described(entry: Entry, url: str) -> str:
    return next((one.title for one in entry.enclosure if one.url == url and one.title), "")


def _files(entry: Entry) -> Iterator[FileView]:
    seen: set[str] = set()
    html = entry.content.html or "" if entry.content is not None else ""
    for enclosure in entry.enclosure:
        if enclosure.type == "text/html" and Markup.escape(enclosure.url) in html:
            continue  # a player, which is in the body
        if web(enclosure.url) and not (enclosure.type or "").startswith("image/"):
            seen.add(enclosure.url)
            kind = (enclosure.type or "").partition("/")[0]
            size, title = round((enclosure.length or 0) / _MEGABYTE), enclosure.title or _host(enclosure.url)
            yield FileView(_playable(kind), enclosure.url, title, enclosure.duration or 0, size)
    for one in entry.podcast.alternate if entry.podcast is not None else ():
        if web(one.url) and one.url not in seen:
            seen.add(one.url)
            yield FileView("file", one.url, one.title or _host(one.url), 0, round((one.length or 0) / _MEGABYTE))
    for kind, urls in (("video", entry.video), ("audio", entry.audio)):
        yield from (FileView(kind, url, _host(url)) for url in urls if web(url) and url not in seen)


def _named(files: list[FileView]) -> list[FileView]:
    """The files; a single one isn't called by its host."""
    if len(files) == 1 and files[0].title == _host(files[0].url):
        return [replace(files[0], title="")]
    return files


def _playable(kind: str) -> str:
    return kind if kind in PLAYED else "file"


def _contexts(entry: Entry) -> Iterator[ContextView]:
    for relation in _TARGETS:
        for url in [one for one in getattr(entry, relation) if web(one)][:_MOST_TARGETS]:
            ref = entry.refs.get(url)
            yield _context(relation, url, ref if isinstance(ref, Entry) else None)


def _context(relation: str, url: str, ref: Entry | None) -> ContextView:
    if ref is None:
        return ContextView(relation, url, mask_credentials(url), "", "")
    author = ref.author.name or "" if ref.author is not None else ""
    text = ref.content.text or "" if ref.content is not None else ""
    return ContextView(relation, url, ref.name or mask_credentials(url), author, excerpt(text or ref.summary or ""))


def _place(card: Card | None) -> str:
    if card is None:
        return ""
    parts = (card.name, card.street_address, card.locality, card.region, card.country_name)
    return ", ".join(dict.fromkeys(part for part in parts if part))


class FeedFaces:
    """The titles and pictures that feeds give themselves, and the kinds of internal feeds.

    They are remembered for `FACES_KEPT` seconds.
    """

    def __init__(self, feeds: Feeds) -> None:
        self._feeds = feeds
        self._known: BoundedCache[str, tuple[float, tuple[str, str, str]]] = BoundedCache(_MOST_FACES)

    async def of(self, ids: Collection[str]) -> dict[str, tuple[str, str, str]]:
        """Title, picture and kind of these feeds, by id, empty for none; those that can't be read are left out.

        No round trip if all are known.
        """
        now = time.monotonic()
        known = {id_: held for id_ in ids if (held := self._known.get(id_)) and now - held[0] < FACES_KEPT}
        if missing := [id_ for id_ in ids if id_ not in known]:
            records = await self._feeds.within_reach(missing)
            read = {id_: (now, _face(record)) for id_, record in records.items()}
            self._known.update(read)
            known |= read
        return {id_: face for id_, (_, face) in known.items()}


def _face(record: FeedRecord) -> tuple[str, str, str]:
    address = InternalAddress.of(record.url)
    return record.title or "", record.icon, address.kind if address is not None else ""


class PostViews:
    """Shows posts to the signed-in user, with titles of feeds, and pictures at addresses of this server."""

    def __init__(self, faces: FeedFaces, images: Images, own_names: OwnNames) -> None:
        self._faces = faces
        self._images = images
        self._own_names = own_names

    async def of(
        self, visit: PageVisit, items: Sequence[dict[str, Any]], view: str = "full", hits: SearchHits = NO_HITS
    ) -> list[PostView]:
        """Items in wire form as pages show them, with what a search has found marked."""
        user = visit.require_session().user
        faces = await self._faces.of({item["_source"] for item in items if "_source" in item})
        address = await self._images.addresses(user)

        def image(url: str) -> str:
            path = address(url)
            return visit.site.pages.href(path) if path else ""

        own = self._own_names.last(user).own
        faces = {id_: (own.get(id_) or title, photo, kind) for id_, (title, photo, kind) in faces.items()}
        # A long post with thousands of elements takes a second, so use a thread; and only one per user, so that one
        # user can't occupy all threads.
        async with visit.site.turns.of(user):
            return await asyncio.to_thread(
                PostForms(
                    *(image, faces, view, hits, visit.display.minutes == "yes", visit.translate(N_("Picture"))),
                    said=lambda text: visit.site.pages.translated(text, visit.language),
                    leaves=visit.leaves,
                ).views,
                items,
            )
