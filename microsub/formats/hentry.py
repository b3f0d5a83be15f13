"""One h-entry, h-event or h-cite to a jf2 entry (https://microformats.org/wiki/h-entry, /h-event, /h-cite)."""

from __future__ import annotations

from microsub.formats import mf2
from microsub.formats.authorship import Page, author_of
from microsub.formats.dates import as_written, from_text
from microsub.formats.normalise import finish, shorten
from microsub.formats.post_types import says_no_more
from microsub.formats.raw import RawEntry
from microsub.formats.urls import host_of, normalise_url
from microsub.model.jf2 import Card, Entry

TYPES = ("h-entry", "h-event", "h-cite", "h-review", "h-recipe", "h-listing")
_TARGETS = ("in-reply-to", "like-of", "repost-of", "bookmark-of", "follow-of", "quotation-of")
MAX_CONTEXTS = 3
"""Posts inside each other that go to `refs`: an answer, what it answers, and what that one quotes."""

MAX_QUOTED = 20_000
"""Characters of the body of a post that another one quotes or answers."""

_BODIES = ("content", "description", "instructions")


def to_entry(item: mf2.Node, feed: mf2.Node | None, page: Page, depth: int = 0) -> RawEntry:
    """`item` as it stands in `feed` (None: on the page itself). `refs` are finished, the body isn't cleaned yet.

    `depth` counts the posts around it that quote it or answer it.
    """
    base = page.base
    url = permalink(item, page)
    published, updated = from_text(mf2.text(item, "published")), from_text(mf2.text(item, "updated"))
    category, refs = _categories(item, base)
    uid = mf2.text(item, "uid")
    entry = Entry(
        type=next((name[2:] for name in TYPES if mf2.has_type(item, name)), "entry"),
        guid=uid or url,
        uid=uid,
        url=url,
        name=_name(item),
        summary=mf2.text(item, "summary"),
        published=published or updated,
        updated=updated if published and updated != published else None,
        author=author_of(item, feed, page),
        category=category,
        photo=tuple(mf2.files(item, "photo", base)),
        video=tuple(mf2.files(item, "video", base)),
        audio=tuple(mf2.files(item, "audio", base)),
        syndication=tuple(mf2.urls(item, "syndication", base)),
        in_reply_to=tuple(mf2.urls(item, "in-reply-to", base)),
        # Without `-of` these are what others did to this post.
        like_of=tuple(mf2.urls(item, "like-of", base)),
        repost_of=tuple(mf2.urls(item, "repost-of", base)),
        bookmark_of=tuple(mf2.urls(item, "bookmark-of", base)),
        follow_of=tuple(mf2.urls(item, "follow-of", base)),
        quotation_of=mf2.url(item, "quotation-of", base),
        featured=next(iter(mf2.files(item, "featured", base)), None),
        rsvp=(mf2.text(item, "rsvp") or "").lower() or None,
        start=as_written(mf2.text(item, "start")),
        end=as_written(mf2.text(item, "end")),
        checkin=_place(item, "checkin", base),
        location=_place(item, "location", base) or mf2.point(item),
        refs=refs | (_contexts(item, page, depth) if depth < MAX_CONTEXTS else {}),
    )
    raw = RawEntry(entry, base, photos_in_body=True)
    raw.html, raw.text = _body(item)
    return raw


def permalink(item: mf2.Node, page: Page) -> str | None:
    """The page of a post: among several addresses the one asked for, then one on its host; else its `id` here."""
    found = mf2.urls(item, "url", page.base)
    here = normalise_url(page.url)
    if found:
        # False sorts before True: the address asked for, then one of this site, then the first.
        return min(found, key=lambda url: (normalise_url(url) != here, host_of(url) != host_of(page.url)))
    if uid := mf2.url(
        {"properties": {"uid": [u for u in mf2.values(item, "uid") if "://" in mf2.plain(u)]}}, "uid", ""
    ):
        return uid
    anchor = item.get("id")
    return f"{page.url.partition('#')[0]}#{anchor}" if isinstance(anchor, str) and anchor.strip() else None


def _name(item: mf2.Node) -> str | None:
    """The name, unless it repeats the content. Both are compared as mf2 reads them, with the `alt` of pictures."""
    # Of a classic review, what it is about and who wrote it may be among the names, before the review's own.
    names = sorted(mf2.values(item, "name"), key=mf2.is_item)
    name = mf2.text({"properties": {"name": names}}, "name")
    return None if any(says_no_more(name, mf2.plain(value)) for value in mf2.values(item, "content")) else name


def _body(item: mf2.Node) -> tuple[str | None, str | None]:
    """The body as HTML or as text."""
    for name in _BODIES:
        for value in mf2.values(item, name):
            if isinstance(value, dict) and isinstance(value.get("html"), str):
                if value["html"].strip():
                    return value["html"], None
            elif body := mf2.plain(value):
                return None, body
    return None, None


def _categories(item: mf2.Node, base: str) -> tuple[tuple[str, ...], dict[str, Entry | Card]]:
    """Tags; a tagged person stands by address, with the card in `refs`."""
    tags: list[str] = []
    refs: dict[str, Entry | Card] = {}
    for value in mf2.values(item, "category"):
        if mf2.is_item(value):
            person = mf2.card(value, base)
            if person is not None and (tag := person.url or person.name):
                tags.append(tag)
                if person.url:
                    refs[person.url] = person
        elif tag := mf2.plain(value):
            tags.append(tag)
    for value in mf2.values(item, "invitee"):
        person = mf2.card(value, base)
        if person is not None and person.url:
            refs[person.url] = person
    return tuple(tags), refs


def _contexts(item: mf2.Node, page: Page, depth: int) -> dict[str, Entry | Card]:
    """Posts that are quoted, liked or replied to and stand in the page themselves."""
    found: dict[str, Entry | Card] = {}
    for name in _TARGETS:
        for value in mf2.values(item, name):
            if not mf2.is_item(value) or not (target := mf2.url({"properties": {name: [value]}}, name, page.base)):
                continue
            if mf2.has_type(value, "h-card"):
                if (person := mf2.card(value, page.base)) is not None:
                    found[target] = person
            else:
                alone = Page(page.url, page.base, page.items, page.people)
                quoted = to_entry(value, None, alone, depth + 1)
                shorten(quoted, MAX_QUOTED)
                found[target] = finish(quoted)
    return found


def _place(item: mf2.Node, name: str, base: str) -> Card | None:
    for value in mf2.values(item, name):
        if (place := mf2.card(value, base)) is not None:
            return place
    return None
