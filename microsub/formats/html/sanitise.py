"""Sanitises foreign HTML; nothing else does.

https://owasp.org/www-community/xss-filter-evasion-cheatsheet.

`nh3` (the ammonia sanitiser, a real HTML5 parser with an allow-list) does the work, once, for all formats. It calls a
filter for each attribute, which makes links absolute and refuses what a list of schemes can't express. Decisions about
whole tags (pictures and frames without a source, formulas) are made on the tokens of the result, never on its text. A
result with formulas or players that this changes is sanitised again, so that the parser has the last word. Without
them all parsers see the same tokens, whatever is left out, and each of these tokens has passed the allow-list.

It keeps what readers need, and nothing that runs, styles or sends requests. Of MathML, only presentation markup is kept
(https://www.w3.org/TR/mathml-core/): no links, no actions, and no annotations, which repeat the formula in another
language.
"""

from __future__ import annotations

import html as entities
import re
import threading
from collections.abc import Collection
from functools import cached_property
from urllib.parse import unquote

import nh3

from microsub.base.digests import short_digest
from microsub.base.urls import LINK, safe_url, without_redirect, without_referrer, without_tracking
from microsub.formats.html.players import PLAYER
from microsub.formats.html.shapes import DROPPED, MATH, TAGS, pieces, plain_shapes, unscripted, with_first_breaks
from microsub.formats.html.text import without_controls
from microsub.formats.html.trees import is_crowded, too_deep

ATTRIBUTES = {
    "*": {"title", "lang", "dir", "id"},
    "a": {"href", "hreflang", "name"},
    "audio": {"src", "controls", "loop"},
    "blockquote": {"cite"},
    # Only the language is kept from `class`, for syntax highlighting.
    "code": {"class"},
    "col": {"span"},
    "colgroup": {"span"},
    "data": {"value"},
    "del": {"cite", "datetime"},
    "details": {"open"},
    "iframe": {"src", "width", "height", "allowfullscreen", "loading"},
    "img": {"src", "srcset", "sizes", "alt", "width", "height"},
    "ins": {"cite", "datetime"},
    "li": {"value"},
    "math": {"display", "alttext"},
    "mfrac": {"linethickness"},
    "mi": {"mathvariant"},
    "mo": {"stretchy", "fence", "separator", "form", "largeop", "movablelimits"},
    "mover": {"accent"},
    "mspace": {"width"},
    "mstyle": {"displaystyle", "scriptlevel"},
    "mtd": {"columnspan", "rowspan"},
    "munder": {"accentunder"},
    "munderover": {"accent", "accentunder"},
    "ol": {"start", "reversed", "type"},
    "pre": {"class"},
    "q": {"cite"},
    "source": {"src", "srcset", "sizes", "type", "media"},
    "td": {"colspan", "rowspan", "align"},
    "th": {"colspan", "rowspan", "align", "scope"},
    "time": {"datetime"},
    "track": {"src", "kind", "label", "srclang"},
    "video": {"src", "poster", "width", "height", "controls", "loop"},
}

_BEACONS = r"""(?ix)//(?:
      pixel\.wp\.com | stats\.(?:wordpress|wp)\.com | feeds\.wordpress\.com/1\.0/ | [^/]*feedsportal\.com
    | feeds\.feedburner\.com/~ | [^/]*\.(?:doubleclick\.net|scorecardresearch\.com|quantserve\.com|google-analytics\.com
        |ioam\.de|met\.vgwort\.de|chartbeat\.net|list-manage\.com/track|statcounter\.com|goatcounter\.com/count
        |sendgrid\.net/wf/open|feedblitz\.com/(?:t|f)\.gif)
    | cpx\.golem\.de | medium\.com/_/stat | (?:www\.)?facebook\.com/tr\b | (?:www\.)?google-analytics\.com
    | pixel\.[^/]+/ | counter\.theconversation\.com | blogger\.googleusercontent\.com/tracker/ | ct\.pinterest\.com
    | px\.ads\.linkedin\.com | bat\.bing\.com | analytics\.twitter\.com | t\.co/i/adsct
    | tracking\.feedpress\.(?:it|com) | track(?:ing)?\.[^/]+/open | email\.[^/]+/o/ )"""
# Two patterns that begin with a slash are found ten times as fast as one that begins with a choice.
_BEACON_HOST = re.compile(_BEACONS)
_BEACON_FILE = re.compile(r"(?i)/(?:(?:piwik|matomo)\.php|b\.gif\?|(?:tracking_?)?pixel\.(?:gif|png))")
_BEACON_NAME = re.compile(r"(?i)[?&]rss_tracking=")


SANDBOX = "allow-scripts allow-same-origin allow-popups allow-presentation"
"""Permissions of players in frames."""

URL_ATTRIBUTES = frozenset({"href", "src", "cite", "poster"})
_SIZED = frozenset({"img", "video", "iframe"})
_PIXELS = re.compile(r"(?ai)\s*+(\d{1,6})(?:\.\d*+)?\s*+(?:px)?\s*+")
_PLAIN_SIZE = re.compile(r"[1-9][0-9]{0,3}")
_PER_CENT = re.compile(r"(?a)\s*(?:100|[1-9]\d?)%\s*")
_ANY_TAG = re.compile(r"<[^<>]*>")
_ATTRIBUTE = re.compile(r'\s([a-z-]+)(?:="([^"]*)")?')
_LANGUAGE = re.compile(r"(?:\A|\s)(?:lang(?:uage)?-|brush:\s*|sourceCode\s+)([\w+#.-]{1,30})(?![^\s;])")
# No other attribute can contain this: in its value the quote would be a reference, and no letter follows its end.
_SOURCE = ' src="http'
# All other images stay unchanged: these are tiny, or have no source.
_DOUBTFUL = re.compile(r' (?:width|height)="[^"\d]*[01](?:\D|\Z)|^(?!.* src="http)', re.S)
_FRAME = re.compile(r'<iframe((?:\s[^\s<>="]+="[^"]*")*)>.*?</iframe>', re.S)
# Only without the text in frames: in values, `nh3` writes `>` as a reference, so a tag ends at the first one.
_IMAGE = re.compile(r"<img\b([^>]*)>")
_DOUBTS = re.compile(r'<(?:iframe|math|/audio|/video|img(?! src="http)(?![^>]*? src="http))')
_WITH_TOKENS = ("<math", "</audio>", "</video>")
_PARSED_AGAIN = ("<math", "</audio>", "</video>", "<pre")
"""Elements whose content may be read differently without a tag in it; `pre` ignores a line break at its beginning."""
# Possessive, like everything here, because publishers choose the length of any run.
_CANDIDATE = re.compile(r"[\s,]*+(\S++)")
_DESCRIPTORS = re.compile(r"(?:\s++[\d.]++[wxh])*+\s*+")


_BLANK = "".join(char for char in map(chr, range(0x3001)) if char.isspace()) + "\ufeff"
"""White space; with the mark of byte order, which parsers take away from the beginning."""

_ID = re.compile(r"[^\s\"'<>&#]{1,100}")
_WITH_ID = re.compile(r'<[a-z][^<>]*? (?:id|name)="[^<>]*>')
_WRITTEN = re.compile(r' ([^\s<>="]+)="([^"]*)"')
_INSIDE = re.compile(r'(<a (?:[^<>]*? )?href=")([^"#]*)#([^"]+)"')
_NAMES = frozenset({"id", "name"})
_PREFIXED = re.compile(r"n[0-9a-f]{8}-")
_MOST_IDS = 500
"""Places in one body that its links lead to."""

_WEB_ADDRESS = re.compile(r"(?i)\bhttps?://[^\s<>\"`、。，「」『』【】《》（）]{1,4000}")
_PUNCTUATION = ".,;:!?'*_…»”’！？；："
_BRACKETS = {")": "(", "]": "[", "}": "{"}
_MOST_PUNCTUATION = 10
_LITERAL = frozenset({"pre", "code", "math"})

MAX_SIZE = 10_000
"""Pixels: larger images would push everything else away."""

_PASSES = 3
"""Maximum number of passes over decisions about tags. Two suffice for all known input; after more, all tags go."""

_LONG = 10_000
"""Characters from which attributes are counted: a tag with 60,000 takes seconds, shorter documents take no time."""


def clean_html(html: str, base: str, page: str | None = None) -> str:
    """`html` without anything that runs, tracks or styles.

    Links are absolute, resolved against `base`, and to a place in the same document against `page`, the post's own
    address. If that place is in `html`, the link leads there. Never raises for content; the result is well-formed and
    may be empty.
    """
    if "<" not in html and "&" not in html:
        return without_controls(entities.escape(html, quote=False)).strip(_BLANK)
    html = unscripted(html)
    if too_deep(html) or (len(html) > _LONG and is_crowded(html)):
        html = _as_text(html)
    html = plain_shapes(html, base)
    cleaner = _CLEANERS.mine
    page = (page or base).partition("#")[0]
    cleaned = cleaner.clean(html, base, page)
    for _ in range(_PASSES):
        decided = _decided(cleaned)
        if decided == cleaned or not any(part in cleaned for part in _PARSED_AGAIN):
            return without_controls(_linked_inside(decided, base, page)).strip(_BLANK)
        cleaned = cleaner.clean(decided, base, page)
    return _as_text(cleaned)


def _as_text(html: str) -> str:
    """The text of `html`, without tags."""
    return entities.escape(entities.unescape(_ANY_TAG.sub(" ", html)), quote=False).strip()


def text_to_html(text: str) -> str:
    """Plain text as HTML, with its paragraphs and line breaks, and links at its addresses."""
    paragraphs = [part.strip() for part in re.split(r"\n[ \t\r]*\n", text) if part.strip()]
    lines = [linked(part).replace("\r", "").replace("\n", "<br>") for part in paragraphs]
    return lines[0] if len(lines) == 1 else "".join(f"<p>{line}</p>" for line in lines)


def linked(text: str) -> str:
    """Plain text as HTML, with links at its web addresses."""
    if "://" not in text:
        return entities.escape(text, quote=False)
    parts: list[str] = []
    at = 0
    for found in _WEB_ADDRESS.finditer(text):
        written = _without_punctuation(found[0])
        if url := safe_url(written):
            href = _escaped(without_tracking(url)).replace('"', "&quot;")
            parts.append(_escaped(text[at : found.start()]))
            parts.append(f'<a href="{href}" rel="noopener noreferrer">{_escaped(written)}</a>')
            at = found.start() + len(written)
    return "".join(parts) + _escaped(text[at:])


def _escaped(text: str) -> str:
    """Text as `nh3` writes it."""
    return entities.escape(text, quote=False).replace("\xa0", "&nbsp;")


def _without_punctuation(url: str) -> str:
    """An address in a sentence, without the punctuation at its end; a closing bracket stays if it was opened inside."""
    for _ in range(_MOST_PUNCTUATION):
        last = url[-1:]
        opened = _BRACKETS.get(last)
        if last not in _PUNCTUATION and (opened is None or url.count(last) <= url.count(opened)):
            break
        url = url[:-1]
    return url


def with_links(cleaned: str) -> str:
    """A body from `clean_html` that has no links, with links at the addresses in its text."""
    if "://" not in cleaned or "<a " in cleaned:
        return cleaned
    parts = []
    literal = 0
    for token in pieces(cleaned) or []:
        if token["name"] in _LITERAL:
            literal += -1 if token["closing"] else 1
        is_text = token["text"] is not None and not literal and "://" in token[0]
        parts.append(linked(entities.unescape(token[0])) if is_text else token[0])
    return "".join(parts)


class _Cleaner:
    """The parser with its filter of attributes."""

    __slots__ = ("_parser", "base", "page")

    def __init__(self) -> None:
        self.base = self.page = ""
        self._parser = nh3.Cleaner(
            tags=set(TAGS),
            clean_content_tags=set(DROPPED),
            attributes=ATTRIBUTES,
            attribute_filter=self._attribute,
            url_schemes=set(LINK),
            set_tag_attribute_values={
                # One per tag: nh3 adds several in an order that changes with each process, which would change item
                # hashes.
                "video": {"controls": ""},
                "audio": {"controls": ""},
                "iframe": {"sandbox": SANDBOX},
            },
        )

    def clean(self, html: str, base: str, page: str) -> str:
        """`html` with only allowed tags and attributes; links are relative to `base`, or to `page`."""
        self.base, self.page = base, page
        return with_first_breaks(self._parser.clean(html))

    def _attribute(self, tag: str, name: str, value: str) -> str | None:
        if name in URL_ATTRIBUTES:
            if value[:1] != "#":
                return _link(tag, name, value, self.base)
            # A link that was sanitised before leads to its place in the same body.
            return value if name == "href" and _PREFIXED.match(value, 1) else _link(tag, name, value, self.page)
        if name == "srcset":
            return clean_srcset(value, self.base)
        if name in {"width", "height"} and tag in _SIZED:
            return _size(tag, value)
        if name in {"id", "name"}:
            return value if _ID.fullmatch(value) else ""  # without one, `nh3` would write the others in another order
        if name == "loading":
            return "lazy"
        if name == "class":
            language = _LANGUAGE.search(value)
            return f"language-{language[1]}" if language else None
        return value


class _Cleaners(threading.local):
    """One cleaner for each thread, made at its first use: that takes as long as a short body."""

    @cached_property
    def mine(self) -> _Cleaner:
        return _Cleaner()


_CLEANERS = _Cleaners()


def _linked_inside(cleaned: str, base: str, page: str) -> str:
    """The result with links that lead to places in it; ids that no link needs are removed.

    Ids get a prefix made from the post's address: they can't be mistaken for another post's, or for an id of the page
    that shows the post.
    """
    if ' id="' not in cleaned and ' name="' not in cleaned:
        return cleaned
    prefix = f"n{short_digest(page.encode('utf-8', 'surrogatepass'))[:8]}-"
    own = {"", *(entities.escape(one.partition("#")[0]) for one in (base, page))}
    ids = {goal for tag in _WITH_ID.findall(cleaned) for goal in _ids_of(tag)}
    goals: dict[str, str] = {}
    for link in _INSIDE.finditer(cleaned):
        goal = unquote(link[3])
        if link[2] in own and goal in ids and len(goals) < _MOST_IDS:
            goals[goal] = goal if _PREFIXED.match(goal) else f"{prefix}{goal}"

    def with_goal(tag: re.Match[str]) -> str:
        goal = next((goals[one] for one in _ids_of(tag[0]) if one in goals), "")
        # Whole attributes, from the first one on: the value of one may end like the beginning of an id.
        bare = _WRITTEN.sub(lambda one: "" if one[1] in _NAMES else one[0], tag[0])
        return f'{bare[:-1]} id="{goal}">' if goal else bare

    def link_to(found: re.Match[str]) -> str:
        goal = goals.get(unquote(found[3])) if found[2] in own else None
        return f'{found[1]}#{goal}"' if goal else found[0]

    return _INSIDE.sub(link_to, _WITH_ID.sub(with_goal, cleaned))


def _ids_of(tag: str) -> list[str]:
    return [value for name, value in _WRITTEN.findall(tag) if name in _NAMES]


def _link(tag: str, name: str, value: str, base: str) -> str | None:
    if name == "href":
        url = safe_url(value, base, LINK)
        if url is None or not ("?" in url or "#" in url or "&" in url):
            return url
        return without_tracking(without_referrer(without_redirect(url), base))
    url = safe_url(value, base)
    if url is None or (tag == "img" and _is_beacon(url)):
        return None
    if tag == "iframe":
        url = f"https:{url.partition(':')[2]}"
        return url if PLAYER.match(url) else None
    return url


def _is_beacon(url: str) -> bool:
    """Whether the address is a tracking pixel's."""
    found = _BEACON_HOST.search(url) or _BEACON_FILE.search(url) or ("?" in url and _BEACON_NAME.search(url))
    return bool(found)


def _size(tag: str, value: str) -> str | None:
    """A width or height in whole pixels, or for players in per cent; None for other values."""
    if _PLAIN_SIZE.fullmatch(value):
        return value
    found = _PIXELS.fullmatch(value)
    if found:
        return str(int(found[1])) if int(found[1]) <= MAX_SIZE else None
    return value.strip() if tag != "img" and _PER_CENT.fullmatch(value) else None


def clean_srcset(value: str, base: str) -> str | None:
    """A `srcset` with absolute URLs, without candidates that aren't web addresses."""
    kept = []
    for url, descriptors in candidates(value):
        if (safe := safe_url(url, base)) and not _is_beacon(safe):
            kept.append(f"{safe.replace(',', '%2C')} {descriptors}".strip())
    return ", ".join(kept) or None


def candidates(srcset: str) -> list[tuple[str, str]]:
    """The addresses in a `srcset` with their descriptors (`2x`, `640w`)."""
    found: list[tuple[str, str]] = []
    at = 0
    while candidate := _CANDIDATE.match(srcset, at):
        url, at = candidate[1], candidate.end()
        descriptors = ""
        # As in HTML: a comma at the end of the address ends the candidate, a comma inside belongs to the address.
        if not url.endswith(","):
            end = srcset.find(",", at)
            start, at = at, end if end >= 0 else len(srcset)
            descriptors = srcset[start:at]
        if _DESCRIPTORS.fullmatch(descriptors):
            found.append((url.rstrip(","), descriptors.strip()))
    return found


def _decided(cleaned: str) -> str:
    """The sanitiser's result without elements that have no source, and with only MathML in formulas."""
    if not ('="0"' in cleaned or '="1"' in cleaned or _DOUBTS.search(cleaned)):
        return cleaned
    if not any(part in cleaned for part in _WITH_TOKENS):
        cleaned = _FRAME.sub(lambda frame: _frame(frame[1]), cleaned)
        return _IMAGE.sub(lambda image: _image(image[0], image[1]), cleaned)
    tokens = pieces(cleaned)
    if tokens is None:
        return _as_text(cleaned)
    kept: list[str] = []
    formula = False
    dropped: set[int] = set()
    sounding: dict[str, int] = {}
    for place, token in enumerate(tokens):
        name, closing = token["name"], token["closing"]
        if place in dropped:
            continue
        if name == "math":
            # Formulas aren't nested.
            if formula == bool(closing):
                kept.append(token[0])
            formula = not closing
        elif token["text"] is not None:
            kept.append(token[0])
        elif formula != (name in MATH):
            # HTML is allowed in formulas, but its meaning depends on the parser's state: markup that is harmless text
            # to one parser is a picture with an event handler to another.
            continue
        elif name is None:
            kept.append(_frame(token["frame"]))
        elif name == "img":
            kept.append(_image(token[0], token["attributes"]))
        else:
            if name in {"audio", "video"} and not closing and place >= sounding.get(name, 0):
                silent, end = _silent(tokens, place)
                dropped |= silent
                if not silent:
                    sounding[name] = end  # those of its name before that have the same source
            if place not in dropped:
                kept.append(token[0])
    return "".join(kept)


def _image(tag: str, attributes: str) -> str:
    """The image tag to keep; empty if it has no source, or is a single pixel."""
    if not _DOUBTFUL.search(attributes):
        return tag
    found: dict[str, str] = dict(_ATTRIBUTE.findall(attributes))
    if not (found.get("src") or found.get("srcset")):
        return ""
    sizes = {found[name].strip().removesuffix("px") for name in ("width", "height") if name in found}
    return "" if sizes and sizes <= {"0", "1"} else tag


def _frame(attributes: str) -> str:
    """A frame, only if it has a source, and never with its content."""
    if ' loading="' not in attributes:
        attributes = attributes.replace(' sandbox="', ' loading="lazy" sandbox="')
    return f"<iframe{attributes}></iframe>" if _SOURCE in attributes else ""


def _silent(tokens: list[re.Match[str]], start: int) -> tuple[set[int], int]:
    """The tags of the player that starts at `start`, if it has nothing to play, else none; and where the search ended.

    Its fallback content for browsers without players then replaces it.
    """
    name = tokens[start]["name"]
    tags: set[int] = set()
    for place in range(start, len(tokens)):
        token = tokens[place]
        if token["name"] in {name, "source", "track"}:
            if _SOURCE in token["attributes"]:
                return set(), place
            tags.add(place)
        if token["name"] == name and token["closing"]:
            break
    return tags, place


def without_images(cleaned: str, urls: Collection[str]) -> str:
    """A body from `clean_html` without its images of `urls`, which are shown separately."""

    def keeps(token: re.Match[str]) -> bool:
        source = dict(_ATTRIBUTE.findall(token["attributes"])).get("src") if token["name"] == "img" else None
        return source is None or entities.unescape(source) not in urls

    return "".join(token[0] for token in pieces(cleaned) or [] if keeps(token)).strip()
