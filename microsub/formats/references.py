"""Reads pages that were looked up for an entry: the author's card, or the target of a reply or like.

Author pages are read by https://indieweb.org/authorship-spec (step 7) and
https://microformats.org/wiki/representative-h-card-parsing. Targets are read by their h-entry; if there is none, by
Open Graph (https://ogp.me/) and the page's own head. The result is bounded, because each entry that refers to it has a
copy.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Literal

from microsub.base.errors import ParseError
from microsub.base.urls import host_of, normalise_profile, normalise_url, safe_url
from microsub.formats import hfeed
from microsub.formats.dates import from_text
from microsub.formats.encoding import decode
from microsub.formats.entry_id import fold, post_type
from microsub.formats.html.sanitise import text_to_html
from microsub.formats.html.text import without_controls
from microsub.formats.html.trees import MAX_PAGE, base_of, tree_of
from microsub.formats.lookups import LookUp
from microsub.formats.microformats import Page, representative
from microsub.formats.normalise import RawEntry, finish
from microsub.formats.parse import sniff
from microsub.model.jf2 import Card, Content, Entry
from microsub.parsing.task import Task

LONG_PAGE = 512 * 1024
MOST_TAGS = 10_000
"""Of a page with more tags or characters, only the head is read: parsing its microformats would take seconds."""

MAX_NAME = 300
MAX_SUMMARY = 500
MAX_TEXT = 2000
MAX_PHOTOS = 4

_CARDS = re.compile(r"(?i)\b(?:h-card|vcard)\b")


def answer(look_up: LookUp, body: bytes, url: str, content_type: str | None) -> Card | Entry | None:
    """The answer of the document at `url` (after redirects) to `look_up`.

    None if it has none. Never raises. The author's card has only name and photo. A reference is an entry, or a card if
    the target is a person's page. It is sanitised, its address is the target's, and it has no references of its own.
    """
    try:
        text = decode(body[: 2 * MAX_PAGE], content_type)
        if sniff(text, content_type) != "html":
            return None
        if look_up.kind == "author":
            return _author(text, look_up.url, url)
        return _reference(text, look_up.url, url)
    except Exception:
        # The underlying parsers can raise anything on hostile pages; the entry then does without.
        return None


def looked_up(
    body: bytes, url: str, content_type: str | None, kind: Literal["author", "target"], asked: str
) -> Card | Entry | None:
    """`answer` for the look-up of that kind of the page `asked`."""
    return answer(LookUp(kind, asked), body, url, content_type)


LOOKED_UP = Task(looked_up)


def _author(text: str, asked: str, url: str) -> Card | None:
    person = _person(text, asked, url) or _Head(text, url).profile()
    if person is None or not (person.name or person.photo):
        return None
    return Card(name=_name(person.name), photo=safe_url(person.photo))


def _person(text: str, asked: str, url: str) -> Card | None:
    """The person the page is about, by the address asked for or the one where it was found."""
    if _is_heavy(text) or not _CARDS.search(text):
        return None
    page = hfeed.read_page(text, url)
    for here in dict.fromkeys((url, asked)):
        if card := representative(replace(page, url=here)) or _own_card(page, here):
            return card
    return None


def _own_card(page: Page, here: str) -> Card | None:
    """A card with this page as its address, inside a post or among other cards."""
    return page.people.get(normalise_profile(here.partition("#")[0]))


def _reference(text: str, asked: str, url: str) -> Entry | Card | None:
    if (post := post_on(text, asked, url)) is not None:
        return bounded(post, asked, url)
    if (person := _person(text, asked, url)) is not None and person.name:
        return Card(
            name=_name(person.name), url=asked, photo=safe_url(person.photo), note=_cut(person.note, MAX_SUMMARY)
        )
    found = head_entry(text, url)
    return bounded(found, asked, url) if found is not None else None


def head_entry(text: str, url: str) -> Entry | None:
    """The page as an entry, from its head; None if it has no title."""
    return _Head(text, url).entry()


def post_on(text: str, asked: str, url: str) -> Entry | None:
    """The page's main post; None for a page with several posts, none of which has its address.

    `asked` is the address that was requested, `url` where the page was found.
    """
    if _is_heavy(text):
        return None
    anchor = asked.partition("#")[2]
    try:
        feed, entries = hfeed.to_jf2(text, f"{url.partition('#')[0]}#{anchor}" if anchor else url)
    except ParseError:
        return None
    chosen = _the_one(entries, {normalise_url(asked), normalise_url(url)}, url)
    if chosen is None:
        return None
    author = chosen.entry.author or feed.author
    if author is None and (name := _Head(text, url).author()):
        author = Card(name=name)
    return finish(chosen, author)


def _the_one(entries: list[RawEntry], places: set[str], url: str) -> RawEntry | None:
    for raw in entries:
        if raw.entry.url and normalise_url(raw.entry.url) in places:
            return raw
    # A home page whose feed has a single post is still the home page.
    root = normalise_url(url).partition("#")[0].count("/") == 3 and normalise_url(url).endswith("/")
    if len(entries) != 1 or root:
        return None
    only = entries[0].entry.url
    return entries[0] if only is None or host_of(only) == host_of(url) else None


def bounded(entry: Entry, asked: str, url: str) -> Entry:
    """The parts of a reference that readers show."""
    author = entry.author
    found = Entry(
        type=entry.type,
        url=entry.url if entry.url and host_of(entry.url) in {host_of(asked), host_of(url)} else asked,
        name=_name(entry.name),
        summary=_cut(entry.summary, MAX_SUMMARY),
        content=_body(entry.content),
        published=entry.published,
        author=Card(name=_name(author.name), url=safe_url(author.url), photo=safe_url(author.photo))
        if author
        else None,
        photo=entry.photo[:MAX_PHOTOS],
        video=entry.video[:1],
        audio=entry.audio[:1],
        start=_cut(entry.start, 64),
        end=_cut(entry.end, 64),
        in_reply_to=entry.in_reply_to[:1],
        repost_of=entry.repost_of[:1],
        like_of=entry.like_of[:1],
        bookmark_of=entry.bookmark_of[:1],
    )
    return replace(found, post_type=entry.post_type or post_type(found))


def _body(content: Content | None) -> Content | None:
    """A body of at most `MAX_TEXT` unchanged, or the beginning of a longer one's text."""
    if content is None or (len(content.text or "") <= MAX_TEXT and len(content.html or "") <= 4 * MAX_TEXT):
        return content
    text = _cut(content.text, MAX_TEXT)
    return Content(text_to_html(text), text) if text else None


class _Head:
    """A page's description of itself in its head, by Open Graph and HTML."""

    def __init__(self, text: str, url: str) -> None:
        self._tree = tree_of(text)
        self._base = base_of(self._tree, url)
        self._said: dict[str, str] = {}
        for node in self._tree.css("meta[property][content], meta[name][content]")[:200]:
            name = node.attributes.get("property") or node.attributes.get("name") or ""
            if value := fold(node.attributes.get("content") or ""):
                self._said.setdefault(name.strip().lower(), value)

    def profile(self) -> Card | None:
        """The person or channel of a page that declares itself a profile."""
        if self._said.get("og:type", "").lower() != "profile":
            return None
        return Card(name=self._first("og:title"), photo=self._picture())

    def author(self) -> str | None:
        """The author's name, or else the site's."""
        name = self._first("author", "article:author", "og:site_name")
        return self._first("og:site_name") if name and "://" in name else name

    def entry(self) -> Entry | None:
        """The page as an entry; None if it has no title."""
        title = self._tree.css_first("head > title")
        name = self._first("og:title", "twitter:title") or (fold(title.text()) if title is not None else None)
        if not name:
            return None
        author, picture = self.author(), self._picture()
        # The picture illustrates an article; by its properties alone, it would be a photo post.
        return Entry(
            post_type="article",
            name=name,
            summary=self._first("og:description", "description", "twitter:description"),
            published=from_text(self._first("article:published_time", "og:article:published_time", "date")),
            author=Card(name=author) if author else None,
            photo=(picture,) if picture else (),
        )

    def _first(self, *names: str) -> str | None:
        return next((self._said[name] for name in names if name in self._said), None)

    def _picture(self) -> str | None:
        names = ("og:image:secure_url", "og:image", "og:image:url", "twitter:image", "twitter:image:src")
        return next((url for name in names if (url := safe_url(self._said.get(name), self._base))), None)


def _is_heavy(text: str) -> bool:
    return len(text) > LONG_PAGE or text.count("<") > MOST_TAGS


def _name(text: str | None) -> str | None:
    return _cut(fold(text or ""), MAX_NAME)


def _cut(text: str | None, most: int) -> str | None:
    """Cut to at most `most` characters, with an ellipsis, between words if possible."""
    text = without_controls(text or "")
    if len(text) <= most:
        return text or None
    words = text[: most - 1].rpartition(" ")[0]
    return (words if len(words) > most // 2 else text[: most - 1]) + "…"
