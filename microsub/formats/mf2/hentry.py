"""One h-entry, h-event or h-cite to a jf2 entry (https://microformats.org/wiki/h-entry, /h-event, /h-cite)."""

from __future__ import annotations

from microsub.formats.dates import as_written, from_text
from microsub.formats.mf2 import values
from microsub.formats.mf2.authorship import Page, author_of
from microsub.formats.normalise import finish, shorten
from microsub.formats.post_types import says_no_more
from microsub.formats.raw import RawEntry
from microsub.kit.urls import host_of, normalise_url
from microsub.model.jf2 import Card, Entry

TYPES = ("h-entry", "h-event", "h-cite", "h-review", "h-recipe", "h-listing")
_TARGETS = ("in-reply-to", "like-of", "repost-of", "bookmark-of", "follow-of", "quotation-of")
MAX_CONTEXTS = 3
"""Posts inside each other that go to `refs`: an answer, what it answers, and what that one quotes."""

MAX_QUOTED = 20_000
"""Characters of the body of a post that another one quotes or answers."""

_BODIES = ("content", "description", "instructions")


def to_entry(item: values.Node, feed: values.Node | None, page: Page, depth: int = 0) -> RawEntry:
    """`item` as it stands in `feed` (None: on the page itself). `refs` are finished, the body isn't cleaned yet.

    `depth` counts the posts around it that quote it or answer it.
    """
    base = page.base
    url = permalink(item, page)
    published, updated = from_text(values.text(item, "published")), from_text(values.text(item, "updated"))
    category, refs = _categories(item, base)
    uid = values.text(item, "uid")
    entry = Entry(
        type=next((name[2:] for name in TYPES if values.has_type(item, name)), "entry"),
        guid=uid or url,
        uid=uid,
        url=url,
        name=_name(item),
        summary=values.text(item, "summary"),
        published=published or updated,
        updated=updated if published and updated != published else None,
        author=author_of(item, feed, page),
        category=category,
        photo=tuple(values.files(item, "photo", base)),
        video=tuple(values.files(item, "video", base)),
        audio=tuple(values.files(item, "audio", base)),
        syndication=tuple(values.urls(item, "syndication", base)),
        in_reply_to=tuple(values.urls(item, "in-reply-to", base)),
        # Without `-of` these are what others did to this post.
        like_of=tuple(values.urls(item, "like-of", base)),
        repost_of=tuple(values.urls(item, "repost-of", base)),
        bookmark_of=tuple(values.urls(item, "bookmark-of", base)),
        follow_of=tuple(values.urls(item, "follow-of", base)),
        quotation_of=values.url(item, "quotation-of", base),
        featured=next(iter(values.files(item, "featured", base)), None),
        rsvp=(values.text(item, "rsvp") or "").lower() or None,
        start=as_written(values.text(item, "start")),
        end=as_written(values.text(item, "end")),
        checkin=_place(item, "checkin", base),
        location=_place(item, "location", base) or values.point(item),
        refs=refs | (_contexts(item, page, depth) if depth < MAX_CONTEXTS else {}),
    )
    raw = RawEntry(entry, base, photos_in_body=True)
    raw.html, raw.text = _body(item)
    return raw


def permalink(item: values.Node, page: Page) -> str | None:
    """The page of a post: among several addresses the one asked for, then one on its host; else its `id` here."""
    found = values.urls(item, "url", page.base)
    here = normalise_url(page.url)
    if found:
        # False sorts before True: the address asked for, then one of this site, then the first.
        return min(found, key=lambda url: (normalise_url(url) != here, host_of(url) != host_of(page.url)))
    if uid := values.url(
        {"properties": {"uid": [u for u in values.values(item, "uid") if "://" in values.plain(u)]}}, "uid", ""
    ):
        return uid
    anchor = item.get("id")
    return f"{page.url.partition('#')[0]}#{anchor}" if isinstance(anchor, str) and anchor.strip() else None


def _name(item: values.Node) -> str | None:
    """The name, unless it repeats the content. Both are compared as mf2 reads them, with the `alt` of pictures."""
    # Of a classic review, what it is about and who wrote it may be among the names, before the review's own.
    names = sorted(values.values(item, "name"), key=values.is_item)
    name = values.text({"properties": {"name": names}}, "name")
    return None if any(says_no_more(name, values.plain(value)) for value in values.values(item, "content")) else name


def _body(item: values.Node) -> tuple[str | None, str | None]:
    """The body as HTML or as text."""
    for name in _BODIES:
        for value in values.values(item, name):
            if isinstance(value, dict) and isinstance(value.get("html"), str):
                if value["html"].strip():
                    return value["html"], None
            elif body := values.plain(value):
                return None, body
    return None, None


def _categories(item: values.Node, base: str) -> tuple[tuple[str, ...], dict[str, Entry | Card]]:
    """Tags; a tagged person stands by address, with the card in `refs`."""
    tags: list[str] = []
    refs: dict[str, Entry | Card] = {}
    for value in values.values(item, "category"):
        if values.is_item(value):
            person = values.card(value, base)
            if person is not None and (tag := person.url or person.name):
                tags.append(tag)
                if person.url:
                    refs[person.url] = person
        elif tag := values.plain(value):
            tags.append(tag)
    for value in values.values(item, "invitee"):
        person = values.card(value, base)
        if person is not None and person.url:
            refs[person.url] = person
    return tuple(tags), refs


def _contexts(item: values.Node, page: Page, depth: int) -> dict[str, Entry | Card]:
    """Posts that are quoted, liked or replied to and stand in the page themselves."""
    found: dict[str, Entry | Card] = {}
    for name in _TARGETS:
        for value in values.values(item, name):
            if not values.is_item(value) or not (
                target := values.url({"properties": {name: [value]}}, name, page.base)
            ):
                continue
            if values.has_type(value, "h-card"):
                if (person := values.card(value, page.base)) is not None:
                    found[target] = person
            else:
                alone = Page(page.url, page.base, page.items, page.people)
                quoted = to_entry(value, None, alone, depth + 1)
                shorten(quoted, MAX_QUOTED)
                found[target] = finish(quoted)
    return found


def _place(item: values.Node, name: str, base: str) -> Card | None:
    for value in values.values(item, name):
        if (place := values.card(value, base)) is not None:
            return place
    return None
