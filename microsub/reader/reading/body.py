"""The body of a post, fitted into the markup of a page.

Stored HTML is already sanitised (`formats.html.sanitise`). Here it is fitted into a page: nothing in it can be mistaken
for a part of the interface, pictures are loaded through our proxy, and players become links, since the page's policy
allows no foreign frames or media. Links that leave the server open a tab: behind them a list of unread posts would no
longer have the post. Finally the parser applies a shorter list of allowed tags than for stored HTML.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape, unescape
from urllib.parse import urlsplit

import nh3

from microsub.base.urls import LINK
from microsub.formats.html.players import page_of, player_link
from microsub.formats.html.sanitise import ATTRIBUTES, candidates
from microsub.formats.html.shapes import DROPPED, TAGS, pieces
from microsub.reader.reading.hits import NO_HITS, SearchHits

ImageAddress = Callable[[str], str]
"""Returns the proxy address of a foreign picture."""

_RENAMED = {
    **{"h1": "h3", "h2": "h3", "h3": "h4", "h4": "h5", "h5": "h6"},
    **dict.fromkeys(("main", "article", "section", "aside", "header", "footer", "address", "center"), "div"),
    **{"tt": "code", "strike": "s", "font": "span"},
}
"""Headings are ranked below the post's own; landmarks and obsolete elements become plain elements."""

_LEFT_OUT = frozenset({"picture", "source", "track"})
_PLAYERS = frozenset({"iframe", "video", "audio"})
_TAGS = frozenset(TAGS - _LEFT_OUT - _PLAYERS - _RENAMED.keys() | frozenset(_RENAMED.values()))
_ATTRIBUTES = {
    **{tag: names for tag, names in ATTRIBUTES.items() if tag in _TAGS},
    **{"*": {"lang", "dir", "title", "id"}, "a": {"href", "hreflang"}, "img": {"src", "alt", "width", "height"}},
    **{"td": {"colspan", "rowspan", "align"}, "th": {"colspan", "rowspan", "scope", "align"}},
}
_ABSOLUTE = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.-]*:")
_INSIDE = re.compile(r"#?n[0-9a-f]{8}-[^\s#]{1,100}")
"""A place in a sanitised body, which no place of our pages is called like, and a link to it."""

_ALIGNED = frozenset({"left", "center", "right"})
_MOST_TITLE = 600
_SMALL = 64
"""Pixels of a picture that is shown whole."""
_LINK = re.compile(r'<a\b(?:[^>"]|"[^"]*")*>')
_LINKS_AND_PICTURES = re.compile(r'</a>|<a\b(?:[^>"]|"[^"]*")*>|<img\b(?:[^>"]|"[^"]*")*>')
_ATTRIBUTE = re.compile(r'\s([a-z-]+)="([^"]*)"')
_TAB = 'target="_blank"'
_FOREIGN = f'rel="noopener noreferrer nofollow" {_TAB}'


def nowhere(_url: str) -> bool:
    """Whether an address leads away, if none does."""
    return False


def body_fitter(
    image: ImageAddress, hits: SearchHits = NO_HITS, picture: str = "", leaves: Callable[[str], bool] = nowhere
) -> Callable[[str], str]:
    """A rewriter that fits stored HTML into an element of a page, with pictures at those addresses, and marked hits.

    Pictures are links to themselves if there is a word for a `picture` that has no description. Links that
    lead away open a tab; `leaves` decides which these are.
    """
    cleaner = _cleaner(image)

    def fitted(html: str) -> str:
        cleaned = _in_tabs(cleaner.clean(_marked_up(hits.html(html))), leaves)
        return _linked_pictures(cleaned, picture) if picture else cleaned

    return fitted


def _in_tabs(html: str, leaves: Callable[[str], bool]) -> str:
    """The same with links that open a tab."""

    def opened(found: re.Match[str]) -> str:
        tag = found[0]
        url = unescape(dict(_ATTRIBUTE.findall(tag)).get("href", ""))
        return f"{tag[:-1]} {_TAB}>" if leaves(url) else tag

    return _LINK.sub(opened, html)


def _linked_pictures(html: str, word: str) -> str:
    """The same with each picture outside of links as a link to its file; small ones stay as they are."""
    inside = 0

    def linked(found: re.Match[str]) -> str:
        nonlocal inside
        tag = found[0]
        if not tag.startswith("<img"):
            inside += -1 if tag.startswith("</") else 1
            return tag
        about = dict(_ATTRIBUTE.findall(tag))
        if inside or not about.get("src") or int(about.get("width") or _SMALL) < _SMALL:
            return tag
        label = "" if about.get("alt") else f' aria-label="{escape(word)}"'
        return f'<a href="{about["src"]}"{label} data-whole>{tag}</a>'

    return _LINKS_AND_PICTURES.sub(linked, html)


def _marked_up(html: str) -> str:
    """Replace tags in `html` that conflict with the page's; HTML that the sanitiser didn't write is unchanged."""
    found = pieces(html)
    if found is None:
        return html
    parts: list[str] = []
    playing = ""
    for piece in found:
        name, is_end = piece["name"], bool(piece["closing"])
        if piece["frame"] is not None:
            parts.append(_player("iframe", piece["frame"]))
        elif name in _PLAYERS and is_end:
            playing = ""
        elif name in _PLAYERS or (playing and name == "source"):
            playing = playing or name
            parts.append(_player(playing, piece["attributes"]))
        elif name == "img":
            parts.append(_picture(piece["attributes"]))
        elif name not in _LEFT_OUT:
            parts.append(_renamed(piece[0], name))
    return "".join(parts)


def _renamed(tag: str, name: str | None) -> str:
    if name not in _RENAMED:
        return tag
    slash, _, rest = tag[1:].partition(name)
    return f"<{slash}{_RENAMED[name]}{rest}"


def _player(kind: str, attributes: str) -> str:
    """A link to what a foreign player shows, with its still and title if they are known; nothing without an address."""
    found = dict(_ATTRIBUTE.findall(attributes))
    url = unescape(found.get("src", ""))
    if not url:
        return ""
    if kind == "audio":
        return f'<a href="{escape(url)}">♪ {escape((urlsplit(url).hostname or "").removeprefix("www."))}</a> '
    page, still = page_of(url) if kind == "iframe" else (url, unescape(found.get("poster", "")))
    return player_link(page, unescape(found.get("title", "")), still)


def _picture(attributes: str) -> str:
    """A picture with one source, the first of its `srcset` if it has no other."""
    found = dict(_ATTRIBUTE.findall(attributes))
    if "src" not in found and (listed := candidates(unescape(found.get("srcset", "")))):
        found["src"] = escape(listed[0][0])
    kept = {"alt": "", **{name: found[name] for name in ("src", "alt", "width", "height", "title") if name in found}}
    if not {"width", "height"} <= kept.keys():
        kept = {name: value for name, value in kept.items() if name not in {"width", "height"}}
    if "src" not in kept:
        return ""
    picture = "<img " + " ".join(f'{name}="{value}"' for name, value in kept.items()) + ">"
    # On a phone nothing shows the title, and some comics end in it.
    title = kept.get("title", "")
    says_more = title.count(" ") > 1 and title not in kept["alt"]
    return f"{picture}<br><small>{title[:_MOST_TITLE]}</small>" if says_more else picture


def _cleaner(image: ImageAddress) -> nh3.Cleaner:
    def attribute(tag: str, name: str, value: str) -> str | None:
        if name == "href":
            # Any other relative address would lead to one of our pages.
            return value if _ABSOLUTE.match(value) or (value[:1] == "#" and _INSIDE.fullmatch(value)) else None
        if name == "id":
            return value if value[:1] != "#" and _INSIDE.fullmatch(value) else None
        if name == "align":
            return value if value in _ALIGNED else None
        return image(value) or None if name == "src" else value

    return nh3.Cleaner(
        tags=set(_TAGS),
        clean_content_tags=set(DROPPED),
        attributes=_ATTRIBUTES,
        attribute_filter=attribute,
        url_schemes=set(LINK),
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={"img": {"loading": "lazy"}},
    )


_TAG = re.compile(r'(<(/?)([a-z0-9]+)(?:[^>"]|"[^"]*")*>)')
_AS_IT_IS = frozenset({"a", "code", "pre"})
_MOMENT = re.compile(
    r"(?<![\w:.,/+-])(?:(\d{1,2}):([0-5]?\d)|(\d{1,3})):([0-5]\d)(?![\w:]|[.,]\d|\s?(?i:[ap]\.?m\b|Uhr\b|UTC\b|GMT\b))",
    re.ASCII,
)
"""A time in an episode, `12:34` or `1:02:03`, unless it is one of the day."""
_ROOM, _ONE_MORE = 100_000, 100
"""Characters that the links of one body may take, and of each without its address."""


def with_moments(html: str, file: str, most: float) -> str:
    """A fitted body with the first times in its text as links to these moments of an audio file.

    The file lasts `most` seconds, 0 if that is unknown. The player of the page follows the links.
    """
    address = escape(file.partition("#")[0])
    left = _ROOM // (len(address) + _ONE_MORE)

    def linked(found: re.Match[str]) -> str:
        hours, minutes, only, seconds = (int(part or 0) for part in found.groups())
        at = 3600 * hours + 60 * (minutes + only) + seconds
        return found[0] if 0 < most < at else f'<a href="{address}#t={at}" data-start="{at}" {_FOREIGN}>{found[0]}</a>'

    parts, inside = _TAG.split(html), 0
    for place in range(0, len(parts), 4):
        if not inside and left > 0:
            parts[place], count = _MOMENT.subn(linked, parts[place], left)
            left -= count
        if place + 3 < len(parts) and parts[place + 3] in _AS_IT_IS:
            inside += -1 if parts[place + 2] else 1
    return "".join(part for place, part in enumerate(parts) if place % 4 < 2)


MOST_SHOWN = 2500
"""Characters of a body that a list shows completely."""
_MOST_TAGS = 10_000
"""Tags of a body on its own page. Ten times as many would block the process for half a second."""
_EXCERPT = 320


def beginning_of(html: str) -> str:
    """Stored HTML up to its `_MOST_TAGS`-th tag, which is enough for any post written by people."""
    return "<".join(html.split("<", _MOST_TAGS + 1)[: _MOST_TAGS + 1])


def excerpt(text: str) -> str:
    """The beginning of a long text, cut between two words."""
    plain = " ".join(text.split())
    return plain if len(plain) <= _EXCERPT else plain[:_EXCERPT].rpartition(" ")[0] + " …"
