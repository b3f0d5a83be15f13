"""Web pages to jf2: h-feed, h-entry and their classic forms (https://microformats.org/wiki/h-feed)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from microsub.errors import ParseError
from microsub.formats.html.depth import MOST, too_deep
from microsub.formats.html.trees import MAX_PAGE
from microsub.formats.mf2 import values
from microsub.formats.mf2.authorship import Page, author_of, people_on, representative
from microsub.formats.mf2.hentry import TYPES, to_entry
from microsub.formats.raw import RawFeed
from microsub.kit.urls import normalise_url, safe_url
from microsub.model.jf2 import Card, Feed

if TYPE_CHECKING:
    import bs4

# html5lib takes a second per megabyte: a page without any of these words isn't parsed at all.
_PROMISE = re.compile(
    r"(?i)\bh-(?:feed|entry|event|cite|review|recipe|listing)\b|\bh(?:atom|feed|entry|review)\b|\bvevent\b"
)
# XML's declaration and stylesheets: comments to an HTML parser, which end at the first `>`.
_XML = re.compile(r"\A(?:\s*<\?xml[^>]*(?:>|\Z))+")


def to_jf2(text: str, url: str) -> RawFeed:
    """Read a page's posts: those of its first h-feed, else those that stand on it by themselves.

    A page that is about one post (its permalink, or a fragment that names one) has that post alone. Raises ParseError
    when there is none.
    """
    if not _PROMISE.search(text):
        raise ParseError(url, "this page has no h-feed and no h-entry")
    soup = _soup(text, url)
    page, rels = _page(soup, url)
    feed, items = find_posts(page)
    if not items and feed is None:
        raise ParseError(url, "this page has microformats, but no posts among them")
    entries = [to_entry(item, feed, page) for item in items]
    return RawFeed(_feed(feed, page, soup, rels), entries)


def read_page(text: str, url: str) -> Page:
    """What a page says in microformats, posts or not. Raises ParseError for one that can't be read."""
    return _page(_soup(text, url), url)[0]


def _soup(text: str, url: str) -> bs4.BeautifulSoup:
    if text.count("<") > MOST:
        raise ParseError(url, f"this page has more than {MOST} tags")
    if too_deep(text):
        raise ParseError(url, "this page nests its elements too deeply to be read")
    import bs4  # with mf2py a fifth of a process's start, and most processes read no page

    # XHTML is HTML here; its declarations only make Beautiful Soup warn that it might not be.
    return bs4.BeautifulSoup(_XML.sub("", text[:MAX_PAGE], count=1), "html5lib")


def _page(soup: bs4.BeautifulSoup, url: str) -> tuple[Page, dict[str, Any]]:
    import mf2py

    for element in soup.select(".value-title[title]"):
        # The value class pattern, which the parser knows in part: as an element whose value it reads.
        element.name, element["value"], element["class"] = "data", element["title"], "value"
    tags = soup.find_all("base")
    tag = next((tag for tag in tags if tag.get("href") is not None), None)
    for other in tags:
        if other is not tag:
            other.decompose()  # the parser would take the first one, with an address or without
    base = safe_url(str(tag["href"]), url) if tag is not None else None
    if tag is not None and base is None:
        tag.decompose()  # as browsers ignore it; the parser would stop at an address that can't be read
    # Without its fragment: an empty `href` means the page itself (RFC 3986, 5.2.2).
    parsed = mf2py.parse(doc=soup, url=url.partition("#")[0], filter_roots=True)
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


def find_posts(page: Page) -> tuple[values.Node | None, list[values.Node]]:
    """The h-feed that the page is, if any, and its posts."""
    fragment = page.url.partition("#")[2]
    if fragment:
        named = next(
            (i for i in values.walk(page.items) if i.get("id") == fragment and values.has_type(i, *TYPES)), None
        )
        if named is not None:
            return None, [named]
    top = [item for item in page.items if values.has_type(item, *TYPES)]
    here = normalise_url(page.url.partition("#")[0])
    own = [item for item in top if here in {normalise_url(u) for u in values.urls(item, "url", page.base)}]
    if len(own) == 1:
        return None, own
    feeds = [item for item in values.walk(page.items) if values.has_type(item, "h-feed")]
    for feed in feeds:
        if posts := posts_of(feed):
            return feed, posts
    if feeds and not top:
        return feeds[0], []
    if not top:
        # Posts inside a person's card, or inside any other item that isn't a post.
        top = [child for item in page.items for child in posts_of(item)]
    return None, top


def posts_of(holder: values.Node) -> list[values.Node]:
    """The posts directly inside an item, as children or as its `entry` property."""
    members = [*values.values(holder, "entry"), *holder.get("children", [])]
    return [item for item in members if values.is_item(item) and values.has_type(item, *TYPES)]


def _feed(feed: values.Node | None, page: Page, soup: bs4.BeautifulSoup, rels: dict[str, Any]) -> Feed:
    title = soup.find("title")
    heading = " ".join(title.get_text().split()) if title is not None else ""
    person = representative(page)
    author = (author_of(feed, None, page) if feed is not None else None) or person or _only_card(feed, page)
    return Feed(
        url=page.url,
        format="h-feed",
        name=_name(feed) or heading or None,
        home=safe_url(page.url.partition("#")[0]),
        photo=(values.url(feed, "photo", page.base) if feed is not None else None)
        or (author.photo if author else None)
        or next((u for rel in ("apple-touch-icon", "icon") for v in rels.get(rel, []) if (u := safe_url(v))), None),
        description=values.text(feed, "summary") if feed is not None else None,
        author=author,
        hub=next((u for value in rels.get("hub", []) if (u := safe_url(value))), None),
        self_url=next((u for value in rels.get("self", []) if (u := safe_url(value))), None),
    )


def _only_card(feed: values.Node | None, page: Page) -> Card | None:
    """The only person in a feed beside its posts: the author of a classic `hfeed`, which has no property for it."""
    cards = [
        item for item in (feed or {}).get("children", []) if values.is_item(item) and values.has_type(item, "h-card")
    ]
    return values.card(cards[0], page.base) if len(cards) == 1 else None


def _name(feed: values.Node | None) -> str | None:
    """The feed's own name; one that mf2 implied from the whole text of the feed is none."""
    name = values.text(feed, "name") if feed is not None else None
    return name if name and len(name) <= 200 and "\n" not in name else None
