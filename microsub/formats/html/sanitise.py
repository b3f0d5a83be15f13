"""Sanitises foreign HTML; nothing else does.

https://owasp.org/www-community/xss-filter-evasion-cheatsheet.

`nh3` (the ammonia sanitiser, a real HTML5 parser with an allow-list) does the work, once, for all formats. It calls a
filter for each attribute, which makes links absolute and refuses what a list of schemes can't express. Decisions about
whole tags (pictures and frames without a source, formulas) are made on the tokens of the result, never on its text; a
result that this changes is sanitised again, so that the parser always has the last word.

It keeps what readers need, and nothing that runs, styles or sends requests. Of MathML, only presentation markup is kept
(https://www.w3.org/TR/mathml-core/): no links, no actions, and no annotations, which repeat the formula in another
language.
"""

from __future__ import annotations

import html as entities
import re
from collections.abc import Collection
from functools import lru_cache

import nh3

from microsub.formats.html.trees import is_crowded, too_deep
from microsub.kit.urls import LINK, safe_url, without_tracking

_INLINE = """a abbr b bdi bdo br cite code data del dfn em font i img ins kbd mark q rb rp rt rtc ruby s samp small span
    strike strong sub sup time tt u var wbr"""
_BLOCK = """address article aside blockquote caption center col colgroup dd details div dl dt figcaption figure footer
    h1 h2 h3 h4 h5 h6 header hr li main ol p pre section summary table tbody td tfoot th thead tr ul"""
_MEDIA = "audio iframe picture source track video"
_MATH = """math merror mfrac mi mmultiscripts mn mo mover mpadded mphantom mprescripts mroot mrow ms mspace msqrt mstyle
    msub msubsup msup mtable mtd mtext mtr munder munderover semantics"""

MATH = frozenset(_MATH.split())
TAGS = frozenset(f"{_INLINE} {_BLOCK} {_MEDIA}".split()) | MATH

# Their content isn't text for people, so it is removed too.
_UNREAD = """script style svg template select textarea button noscript noembed noframes object applet title head xmp
    plaintext annotation annotation-xml"""
DROPPED = frozenset(_UNREAD.split())

ATTRIBUTES = {
    "*": {"title", "lang", "dir"},
    "a": {"href", "hreflang"},
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
    # `style` is always removed; the filter only uses it to detect hidden images.
    "img": {"src", "srcset", "sizes", "alt", "width", "height", "style", "data-src", "data-lazy-src", "data-original"},
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

# Exact hosts, and the paths of their players: their other paths may lead anywhere.
_PLAYERS = r"""(?ix)https://(?![^?\#]*/\.+(?:[/?\#]|\Z))(?:
      (?:www\.)?youtube(?:-nocookie)?\.com/embed/ | player\.vimeo\.com/video/ | vimeo\.com/event/
    | www\.dailymotion\.com/embed/ | geo\.dailymotion\.com/player\b | w\.soundcloud\.com/player/
    | bandcamp\.com/EmbeddedPlayer\b | open\.spotify\.com/embed\b | embed\.podcasts\.apple\.com/
    | embed\.music\.apple\.com/ | player\.twitch\.tv/ | clips\.twitch\.tv/embed\b | media\.ccc\.de/v/[\w.-]+/oembed\b
    | archive\.org/embed/ | (?:www\.)?openstreetmap\.org/export/embed\.html | codepen\.io/[\w-]+/embed/
    | embed\.ted\.com/talks/ | player\.bilibili\.com/player\.html | rumble\.com/embed/
    | (?:www\.|player-widget\.)?mixcloud\.com/widget/ | widget\.deezer\.com/widget/ | embed\.tidal\.com/
    )
    (?:[^?\#%;\\] | %(?:20|2[67c]|3[ad]|40|[89ab][\da-f]|c[2-9a-f]|d[\da-f]|e(?!0%[89])[\da-f]|f(?!0%8)[0-4]))*+
    (?:[?\#]|\Z)"""
PLAYER = re.compile(_PLAYERS)
"""Matches addresses that may be framed.

The rest of the path has no step upwards, and no escape that a server could decode as one: of `/`, `\\`, `.`, `%` and
control characters, or of overlong forms of these in UTF-8.
"""

_BEACONS = r"""(?ix)//(?:
      pixel\.wp\.com | stats\.(?:wordpress|wp)\.com | feeds\.wordpress\.com/1\.0/ | [^/]*feedsportal\.com
    | feeds\.feedburner\.com/~ | [^/]*\.(?:doubleclick\.net|scorecardresearch\.com|quantserve\.com|google-analytics\.com
        |ioam\.de|met\.vgwort\.de|chartbeat\.net|list-manage\.com/track|statcounter\.com|goatcounter\.com/count
        |sendgrid\.net/wf/open|feedblitz\.com/(?:t|f)\.gif)
    | cpx\.golem\.de | medium\.com/_/stat | (?:www\.)?facebook\.com/tr\b | (?:www\.)?google-analytics\.com
    | pixel\.[^/]+/ | counter\.theconversation\.com | blogger\.googleusercontent\.com/tracker/ | ct\.pinterest\.com
    | px\.ads\.linkedin\.com | bat\.bing\.com | analytics\.twitter\.com | t\.co/i/adsct
    | tracking\.feedpress\.(?:it|com) | track(?:ing)?\.[^/]+/open | email\.[^/]+/o/ )
    | /(?:piwik|matomo)\.php | [?&]rss_tracking= | /b\.gif\? | /(?:tracking_?)?pixel\.(?:gif|png)"""
BEACON = re.compile(_BEACONS)
"""Found in the addresses of tracking pixels."""


SANDBOX = "allow-scripts allow-same-origin allow-popups allow-presentation"
"""Permissions of players in frames."""

URL_ATTRIBUTES = frozenset({"href", "src", "cite", "poster", "data-src", "data-lazy-src", "data-original"})
_SIZED = frozenset({"img", "video", "iframe"})
_PIXELS = re.compile(r"(?ai)\s*+(\d{1,6})(?:\.\d*+)?\s*+(?:px)?\s*+")
_PER_CENT = re.compile(r"(?a)\s*(?:100|[1-9]\d?)%\s*")
_LAZY = ("data-src", "data-lazy-src", "data-original")
_HIDDEN = re.compile(r"(?i)display:\s*none|visibility:\s*hidden|(?:^|[;\s])(?:width|height):\s*[01](?:px)?\s*(?:;|$)")
_ANY_TAG = re.compile(r"<[^<>]*>")
_NOSCRIPT = re.compile(r"(?is)<noscript\b[^<>]*>((?:(?!</?noscript\b).)*)</noscript\s*>")
_ATTRIBUTE = re.compile(r'\s([a-z-]+)(?:="([^"]*)")?')
# Only without frames: in values, `nh3` writes `>` as a reference, so a tag ends at the first one.
_IMAGE = re.compile(r"<img\b([^>]*)>")
# Everything that `nh3` writes is one of these: a frame with its raw text, a tag, or text, in which `<` is a reference.
_TOKEN = re.compile(
    r"""
    <iframe(?P<frame>(?:\s[^\s<>="]+="[^"]*")*)>.*?</iframe>
  | <(?P<closing>/?)(?P<name>(?!iframe\b)[a-z][a-z0-9-]*)(?P<attributes>(?:\s[^\s<>="]+="[^"]*")*)>
  | (?P<text>[^<]+)
""",
    re.S | re.X,
)
_LANGUAGE = re.compile(r"(?:\A|\s)(?:lang(?:uage)?-|brush:\s*|sourceCode\s+)([\w+#.-]{1,30})(?![^\s;])")
# No other attribute can contain this: in its value the quote would be a reference, and no letter follows its end.
_SOURCE = ' src="http'
# All other images stay unchanged: these are lazy, hidden or tiny, or have no source.
_DOUBTFUL = re.compile(r' (?:style|data-[a-z-]+)=| (?:width|height)="[^"\d]*[01](?:\D|\Z)|^(?!.* src="http)', re.S)
# Possessive, like everything here, because publishers choose the length of any run.
_CANDIDATE = re.compile(r"[\s,]*+(\S++)")
_DESCRIPTORS = re.compile(r"(?:\s++[\d.]++[wxh])*+\s*+")


MAX_SIZE = 10_000
"""Pixels: larger images would push everything else away."""

_PASSES = 3
"""Maximum number of passes over decisions about tags. Two suffice for all known input; after more, all tags go."""

_LONG = 10_000
"""Characters from which attributes are counted: a tag with 60,000 takes seconds, shorter documents take no time."""


def clean_html(html: str, base: str) -> str:
    """`html` without anything that runs, tracks or styles.

    Links are absolute, resolved against `base`. Never raises for content; the result is well-formed and may be empty.
    """
    if "<" not in html and "&" not in html:
        return entities.escape(html, quote=False).strip()
    if too_deep(html) or (len(html) > _LONG and is_crowded(html)):
        html = _as_text(html)
    if "noscript" in html or "NOSCRIPT" in html:
        html = _without_scripts(html)
    cleaner = _cleaner(base)
    cleaned = cleaner.clean(html)
    for _ in range(_PASSES):
        decided = _decided(cleaned) if _has_doubts(cleaned) else cleaned
        if decided == cleaned:
            return cleaned.strip()
        cleaned = cleaner.clean(decided)
    return _as_text(cleaned)


def _as_text(html: str) -> str:
    """The text of `html`, without tags."""
    return entities.escape(entities.unescape(_ANY_TAG.sub(" ", html)), quote=False).strip()


def _without_scripts(html: str) -> str:
    """Show the content of `noscript`, because scripts never run here.

    It is dropped if it repeats a lazy picture, which is taken from `data-src` instead (see `_image`).
    """
    lazy = any(name in html for name in _LAZY)
    return _NOSCRIPT.sub(lambda found: "" if lazy and "<img" in found[1] else found[1], html)


def text_to_html(text: str) -> str:
    """Plain text as HTML, with its paragraphs and line breaks."""
    paragraphs = [part.strip() for part in re.split(r"\n[ \t\r]*\n", text) if part.strip()]
    lines = [entities.escape(part, quote=False).replace("\r", "").replace("\n", "<br>") for part in paragraphs]
    return lines[0] if len(lines) == 1 else "".join(f"<p>{line}</p>" for line in lines)


@lru_cache(maxsize=256)
def _cleaner(base: str) -> nh3.Cleaner:
    def attribute(tag: str, name: str, value: str) -> str | None:
        if name in URL_ATTRIBUTES:
            return _link(tag, name, value, base)
        if name == "srcset":
            return clean_srcset(value, base)
        if name in {"width", "height"} and tag in _SIZED:
            return _size(tag, value)
        if name == "loading":
            return "lazy"
        if name == "style":
            return "hidden" if _HIDDEN.search(value) else None
        if name == "class":
            language = _LANGUAGE.search(value)
            return f"language-{language[1]}" if language else None
        return value

    return nh3.Cleaner(
        tags=TAGS,
        clean_content_tags=DROPPED,
        attributes=ATTRIBUTES,
        attribute_filter=attribute,
        url_schemes=LINK,
        set_tag_attribute_values={
            # One per tag: nh3 adds several in an order that changes with each process, which would change item hashes.
            "video": {"controls": ""},
            "audio": {"controls": ""},
            "iframe": {"sandbox": SANDBOX},
        },
    )


def _link(tag: str, name: str, value: str, base: str) -> str | None:
    if name == "href":
        url = safe_url(value, base, LINK)
        return url and without_tracking(url)
    url = safe_url(value, base)
    if url is None or (tag == "img" and BEACON.search(url)):
        return None
    if tag == "iframe":
        url = f"https:{url.partition(':')[2]}"
        return url if PLAYER.match(url) else None
    return url


def _size(tag: str, value: str) -> str | None:
    """A width or height in whole pixels, or for players in per cent; None for other values."""
    found = _PIXELS.fullmatch(value)
    if found:
        return str(int(found[1])) if int(found[1]) <= MAX_SIZE else None
    return value.strip() if tag != "img" and _PER_CENT.fullmatch(value) else None


def clean_srcset(value: str, base: str) -> str | None:
    """A `srcset` with absolute URLs, without candidates that aren't web addresses."""
    kept = []
    for url, descriptors in candidates(value):
        if (safe := safe_url(url, base)) and not BEACON.search(safe):
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


def _has_doubts(cleaned: str) -> bool:
    """Whether decisions about whole tags are needed in the sanitiser's result.

    A cheap check that may wrongly return True.
    """
    if any(part in cleaned for part in ("<iframe", "<math", "</audio>", "</video>")):
        return True
    return "<img" in cleaned and any(_DOUBTFUL.search(image[1]) for image in _IMAGE.finditer(cleaned))


def _decided(cleaned: str) -> str:
    """The sanitiser's result without elements that have no source, and with only MathML in formulas."""
    tokens = pieces(cleaned)
    if tokens is None:
        return _as_text(cleaned)
    kept: list[str] = []
    formula = False
    dropped: set[int] = set()
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
            if name in {"audio", "video"} and not closing:
                dropped |= _silent(tokens, place)
            if place not in dropped:
                kept.append(token[0])
    return "".join(kept)


def pieces(cleaned: str) -> list[re.Match[str]] | None:
    """The sanitiser's result as tokens; None if it has an unexpected form.

    Groups: `frame` (attributes of a whole frame), `name` of a tag with `closing` and `attributes`, or `text`.
    """
    tokens = list(_TOKEN.finditer(cleaned))
    return tokens if sum(len(token[0]) for token in tokens) == len(cleaned) else None


def _image(tag: str, attributes: str) -> str:
    """The image tag to keep; empty if it has no source, is hidden, or is a single pixel."""
    if not _DOUBTFUL.search(attributes):
        return tag
    found: dict[str, str] = dict(_ATTRIBUTE.findall(attributes))
    lazy = next((found.pop(name) for name in _LAZY if found.get(name)), None)
    if lazy:
        # A script would have put it there; the placeholder in `src` shows nothing.
        found["src"] = lazy
    if not (found.get("src") or found.get("srcset")) or "style" in found:
        return ""
    sizes = {found[name].strip().removesuffix("px") for name in ("width", "height") if name in found}
    if sizes and sizes <= {"0", "1"}:
        return ""
    if lazy or any(name in found for name in _LAZY):
        return "<img " + " ".join(f'{name}="{value}"' for name, value in found.items() if name not in _LAZY) + ">"
    return tag


def _frame(attributes: str) -> str:
    """A frame, only if it has a source, and never with its content."""
    lazy = "" if ' loading="' in attributes else ' loading="lazy"'
    return f"<iframe{attributes}{lazy}></iframe>" if _SOURCE in attributes else ""


def _silent(tokens: list[re.Match[str]], start: int) -> set[int]:
    """The tags of the player that starts at `start`, if it has nothing to play, else none.

    Its fallback content for browsers without players then replaces it.
    """
    name = tokens[start]["name"]
    tags: set[int] = set()
    for place in range(start, len(tokens)):
        token = tokens[place]
        if token["name"] in {name, "source", "track"}:
            if _SOURCE in token["attributes"]:
                return set()
            tags.add(place)
        if token["name"] == name and token["closing"]:
            break
    return tags


def without_images(cleaned: str, urls: Collection[str]) -> str:
    """A body from `clean_html` without its images of `urls`, which are shown separately."""

    def keeps(token: re.Match[str]) -> bool:
        source = dict(_ATTRIBUTE.findall(token["attributes"])).get("src") if token["name"] == "img" else None
        return source is None or entities.unescape(source) not in urls

    return "".join(token[0] for token in pieces(cleaned) or [] if keeps(token)).strip()
