"""Parses web pages to jf2: h-feed, h-entry, classic forms (https://microformats.org/wiki/h-feed)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import orjson

from microsub import formats  # Beautiful Soup takes a fifth of a process's start, and most parse no page
from microsub.base.errors import ParseError
from microsub.base.urls import host_of, normalise_url, safe_url
from microsub.formats import microformats as mf2
from microsub.formats.dates import as_written, from_text
from microsub.formats.entry_id import says_no_more
from microsub.formats.html.trees import MAX_PAGE, MOST_TAGS, too_deep
from microsub.formats.microformats import Page, author_of, people_on, representative
from microsub.formats.normalise import RawEntry, finish, shorten
from microsub.model.jf2 import Card, Entry, Feed, Review
from microsub.parsing.task import Task

if TYPE_CHECKING:
    import bs4

# html5lib takes a second per megabyte, so a page without any of these words isn't parsed.
_PROMISE = re.compile(
    r"(?i)\bh-(?:feed|entry|event|cite|review|recipe|listing)\b|\bh(?:atom|feed|entry|review)\b|\bvevent\b"
)
# XML declarations and stylesheets: to an HTML parser they are comments that end at the first `>`.
_XML = re.compile(r"\A(?:\s*<\?xml[^>]*(?:>|\Z))+")
_MOST_LINKS = 20


def to_jf2(text: str, url: str) -> tuple[Feed, list[RawEntry]]:
    """Read a page's posts: those of its first h-feed, else its top-level posts.

    A page about one post (its permalink, or a fragment that names one) has only that post. Raises ParseError if there
    is none.
    """
    if not _PROMISE.search(text):
        raise ParseError(url, "this page has no h-feed and no h-entry")
    soup = _soup(text, url)
    page, rels = _page(soup, url)
    feed, items = find_posts(page)
    if not items and feed is None:
        raise ParseError(url, "this page has microformats, but no posts among them")
    entries = [to_entry(item, feed, page) for item in items]
    return _feed(feed, page, soup, rels), entries


def read_page(text: str, url: str) -> Page:
    """Read a page's microformats. Raises ParseError if it can't be parsed."""
    return _page(_soup(text, url), url)[0]


def _soup(text: str, url: str) -> bs4.BeautifulSoup:
    if text.count("<") > MOST_TAGS:
        raise ParseError(url, f"this page has more than {MOST_TAGS} tags")
    if too_deep(text):
        raise ParseError(url, "this page nests its elements too deeply to be read")
    # XHTML is parsed as HTML; its declarations would only cause warnings of Beautiful Soup.
    return formats.soup_of(_XML.sub("", text[:MAX_PAGE], count=1))


def _page(soup: bs4.BeautifulSoup, url: str) -> tuple[Page, dict[str, Any]]:
    for element in soup.select(".value-title[title]"):
        # The value class pattern, which the parser supports only in part: convert it to an element with a value.
        element.name, element["value"], element["class"] = "data", element["title"], "value"
    tags = soup.find_all("base")
    tag = next((tag for tag in tags if tag.get("href") is not None), None)
    for other in tags:
        if other is not tag:
            other.decompose()  # the parser would use the first one, even without an address
    base = safe_url(str(tag["href"]), url) if tag is not None else None
    if tag is not None and base is None:
        tag.decompose()  # browsers ignore it; the parser would fail on its invalid address
    # Without the fragment, because an empty `href` means the page itself (RFC 3986, 5.2.2).
    parsed = formats.microformats_in(soup, url.partition("#")[0])
    rels: dict[str, Any] = parsed.get("rels", {})
    items = parsed.get("items", [])
    page = Page(
        url,
        base or url,
        items,
        people_on(items, base or url),
        tuple(u for value in rels.get("author", []) if (u := safe_url(value, url))),
        tuple(u for value in rels.get("me", []) if (u := safe_url(value, url))),
    )
    return page, rels


def find_posts(page: Page) -> tuple[mf2.Node | None, list[mf2.Node]]:
    """The page's h-feed, if it has one, and its posts."""
    fragment = page.url.partition("#")[2]
    if fragment:
        named = next((i for i in mf2.walk(page.items) if i.get("id") == fragment and mf2.has_type(i, *TYPES)), None)
        if named is not None:
            return None, [named]
    top = [item for item in page.items if mf2.has_type(item, *TYPES)]
    here = normalise_url(page.url.partition("#")[0])
    own = [item for item in top if here in {normalise_url(u) for u in mf2.urls(item, "url", page.base)}]
    if len(own) == 1:
        return None, own
    feeds = [item for item in mf2.walk(page.items) if mf2.has_type(item, "h-feed")]
    for feed in feeds:
        if posts := posts_of(feed):
            return feed, posts
    if feeds and not top:
        return feeds[0], []
    if not top:
        # Posts inside a person's card, or any other item that isn't a post.
        top = [child for item in page.items for child in posts_of(item)]
    return None, top


def posts_of(holder: mf2.Node) -> list[mf2.Node]:
    """The posts directly inside an item, as children or in its `entry` property."""
    members = [*mf2.values(holder, "entry"), *holder.get("children", [])]
    return [item for item in members if mf2.is_item(item) and mf2.has_type(item, *TYPES)]


def _feed(feed: mf2.Node | None, page: Page, soup: bs4.BeautifulSoup, rels: dict[str, Any]) -> Feed:
    title = soup.find("title")
    heading = " ".join(title.get_text().split()) if title is not None else ""
    person = representative(page)
    author = (author_of(feed, None, page) if feed is not None else None) or person or _only_card(feed, page)
    return Feed(
        url=page.url,
        format="h-feed",
        name=_name(feed) or heading or None,
        home=safe_url(page.url.partition("#")[0]),
        photo=(mf2.url(feed, "photo", page.base) if feed is not None else None)
        or (author.photo if author else None)
        or next((u for rel in ("apple-touch-icon", "icon") for v in rels.get(rel, []) if (u := safe_url(v))), None),
        description=mf2.text(feed, "summary") if feed is not None else None,
        author=author,
        hub=_head_link(soup, "hub", page.base),
        self_url=_head_link(soup, "self", page.base),
    )


def _head_link(soup: bs4.BeautifulSoup, rel: str, base: str) -> str | None:
    """The first `<link>` with that relation in the head, because others may write into the body (WebSub, 4)."""
    links = soup.head.find_all("link", rel=rel, limit=_MOST_LINKS) if soup.head is not None else ()
    return next((u for link in links if (u := safe_url(str(link.get("href") or ""), base))), None)


def _only_card(feed: mf2.Node | None, page: Page) -> Card | None:
    """The only person in a feed besides its posts: the author of a classic `hfeed`."""
    cards = [item for item in (feed or {}).get("children", []) if mf2.is_item(item) and mf2.has_type(item, "h-card")]
    return mf2.card(cards[0], page.base) if len(cards) == 1 else None


def _name(feed: mf2.Node | None) -> str | None:
    """The feed's own name; one that mf2 implied from the feed's whole text doesn't count."""
    name = mf2.text(feed, "name") if feed is not None else None
    return name if name and len(name) <= 200 and "\n" not in name else None


TYPES = ("h-entry", "h-event", "h-cite", "h-review", "h-recipe", "h-listing")
_TARGETS = ("in-reply-to", "like-of", "repost-of", "bookmark-of", "follow-of", "quotation-of")
MAX_CONTEXTS = 3
"""Nested posts that go to `refs`: a reply, its target, and what that one quotes."""

MAX_QUOTED = 20_000
"""Characters of the body of a quoted or replied-to post."""

_BODIES = ("content", "description", "instructions")


def to_entry(item: mf2.Node, feed: mf2.Node | None, page: Page, depth: int = 0) -> RawEntry:
    """Convert `item`, which is in `feed` (None: on the page itself).

    `refs` are finished, the body isn't cleaned yet. `depth` counts the enclosing posts that quote it or reply to it.
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
        name=_entry_name(item),
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
        # Without `-of`, these properties are what others did to this post.
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
        review=_review(item, base),
        refs=refs | (_contexts(item, page, depth) if depth < MAX_CONTEXTS else {}),
    )
    raw = RawEntry(entry, base, photos_in_body=True)
    raw.html, raw.text = _body(item)
    return raw


def posted_entry(body: bytes, url: str) -> Entry:
    """A post of a source, `{"type": […], "properties": {…}}`, cleaned; `url` is the address of its page."""
    raw = to_entry(orjson.loads(body), None, Page(url, url, [], {}))
    shorten(raw)
    return finish(raw)


POSTED_ENTRY = Task(posted_entry)


def permalink(item: mf2.Node, page: Page) -> str | None:
    """The address of a post: the requested one, else one on its host, else its `id` on this page."""
    found = mf2.urls(item, "url", page.base)
    here = normalise_url(page.url)
    if found:
        # False sorts before True: the requested address, then one of this site, then the first.
        return min(found, key=lambda url: (normalise_url(url) != here, host_of(url) != host_of(page.url)))
    if uid := mf2.url(
        {"properties": {"uid": [u for u in mf2.values(item, "uid") if "://" in mf2.plain(u)]}}, "uid", ""
    ):
        return uid
    anchor = item.get("id")
    return f"{page.url.partition('#')[0]}#{anchor}" if isinstance(anchor, str) and anchor.strip() else None


def _entry_name(item: mf2.Node) -> str | None:
    """The name, unless it repeats the content, both with the `alt` of pictures."""
    # In a classic review, the reviewed item and the author may be among the names, before the review's own.
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
    """The tags; a tagged person is listed by address, with the card in `refs`."""
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
    """Quoted, liked and replied-to posts that are in the page itself."""
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


def _review(item: mf2.Node, base: str) -> Review | None:
    """The judgement of a review, or of an entry with one review in it."""
    inner = [*mf2.values(item, "review"), *(item.get("children") or ())]
    reviews = [one for one in [item, *inner] if mf2.is_item(one) and mf2.has_type(one, "h-review")]
    if len(reviews) != 1 and (not reviews or reviews[0] is not item):
        return None
    about = _place(reviews[0], "item", base)
    rating, best = _rating(reviews[0])
    # mf2 takes the address of a classic review for the item's, too.
    return Review(rating, best, about if about and about.name else None)


def _rating(review: mf2.Node) -> tuple[str | None, str | None]:
    """The rating and the best one, of the review or of a `rating` with parts; stars count as their number."""
    best, text = _number(review, "best"), (mf2.text(review, "rating") or "").strip()
    if stars := _STARS.fullmatch(text):
        return str(len(stars[1])), best or str(len(stars[1]) + len(stars[2]))
    if both := _OF_BEST.fullmatch(text):
        return both[1], best or both[2]
    if rating := _number(review, "rating"):
        return rating, best
    for part in mf2.values(review, "rating"):
        if mf2.is_item(part) and (rating := _number(part, "rating") or _number(part, "value")):
            return rating, _number(part, "best") or best
    return None, best


_DECIMAL = r"\d{1,4}(?:[.,]\d{1,2})?"
_STARS = re.compile(r"(★{1,10})(☆{0,9})")
_OF_BEST = re.compile(rf"({_DECIMAL}) ?(?:/|of|out of|von) ?({_DECIMAL})(?: stars| Sternen?)?")


def _number(item: mf2.Node, name: str) -> str | None:
    """A decimal number; other texts can't be compared."""
    word = (mf2.text(item, name) or "").strip()
    return word if re.fullmatch(_DECIMAL, word) else None


def _place(item: mf2.Node, name: str, base: str) -> Card | None:
    for value in mf2.values(item, name):
        if (place := mf2.card(value, base)) is not None:
            return place
    return None
