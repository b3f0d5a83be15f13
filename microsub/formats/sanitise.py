"""The one place where foreign HTML becomes harmless: https://owasp.org/www-community/xss-filter-evasion-cheatsheet.

`nh3` (the ammonia sanitiser, a real HTML5 parser with an allow-list) does the work, once, for every format. A filter
that it calls for each attribute makes links absolute and refuses what a scheme list can't express; a small pass over
the result, whose form is then known exactly, removes the images and frames which lost their source.
"""

from __future__ import annotations

import html as entities
import re
from collections.abc import Collection
from functools import lru_cache

import nh3

from microsub.formats.allowed import ATTRIBUTES, BEACON, DROPPED, MATH, PLAYER, TAGS
from microsub.formats.depth import too_deep
from microsub.formats.urls import LINK, safe_url, without_tracking

_FRAME_RULES = 'sandbox="allow-scripts allow-same-origin allow-popups allow-presentation" loading="lazy"'

URL_ATTRIBUTES = frozenset({"href", "src", "cite", "poster", "data-src", "data-lazy-src", "data-original"})
_SIZED = frozenset({"img", "video", "iframe"})
_PIXELS = re.compile(r"(?ai)\s*(\d{1,6})(?:\.\d*)?\s*(?:px)?\s*")
_PER_CENT = re.compile(r"(?a)\s*(?:100|[1-9]\d?)%\s*")
_LAZY = ("data-src", "data-lazy-src", "data-original")
_HIDDEN = re.compile(r"(?i)display:\s*none|visibility:\s*hidden|(?:^|[;\s])(?:width|height):\s*[01](?:px)?\s*(?:;|$)")
_ANY_TAG = re.compile(r"<[^<>]*>")
_NOSCRIPT = re.compile(r"(?is)<noscript\b[^<>]*>((?:(?!</?noscript\b).)*)</noscript\s*>")
_ATTRIBUTE = re.compile(r'\s([a-z-]+)(?:="([^"]*)")?')
# In values `nh3` writes `>` as a reference, so that a tag ends at the first one.
_IMAGE = re.compile(r"<img\b([^>]*)>")
_PLAYED = re.compile(r"<(audio|video)\b[^>]*>(.*?)</\1>", re.S)
_SOURCE = re.compile(r"<(?:source|track)\b[^>]*>")
_FORMULA_TAG = re.compile(r"(<(/?)([a-z0-9-]+)[^>]*>)")
_LANGUAGE = re.compile(r"(?:\A|\s)(?:lang(?:uage)?-|brush:\s*|sourceCode\s+)([\w+#.-]{1,30})(?![^\s;])")
_FRAME = re.compile(r"<iframe\b([^>]*)>.*?</iframe>", re.S)
# All images but these stay as they are: lazy, hidden or tiny ones, and those without a source.
_DOUBTFUL = re.compile(r' (?:style|data-[a-z-]+)=| (?:width|height)="[^"\d]*[01](?:\D|\Z)|^(?!.* src="http)', re.S)
_CANDIDATE = re.compile(r"\s*,*\s*(\S+)((?:\s+[\d.]+[wxh])*)\s*(?:,|\Z)")


MAX_SIZE = 10_000
"""Pixels: what claims more would push everything else away."""


def clean_html(html: str, base: str) -> str:
    """`html` without anything that runs, tracks, or styles; links absolute, resolved against `base`.

    Never raises for content; the result is well-formed and may be empty.
    """
    if "<" not in html and "&" not in html:
        return entities.escape(html, quote=False).strip()
    if too_deep(html):
        html = entities.escape(entities.unescape(_ANY_TAG.sub(" ", html)), quote=False)
    if "noscript" in html or "NOSCRIPT" in html:
        html = _without_scripts(html)
    cleaned = _cleaner(base).clean(html)
    if "<img" in cleaned:
        cleaned = _IMAGE.sub(_image, cleaned)
    if "<iframe" in cleaned:
        cleaned = _FRAME.sub(_frame, cleaned)
    if "</audio>" in cleaned or "</video>" in cleaned:
        cleaned = _PLAYED.sub(_played, cleaned)
    if "<math" in cleaned:
        cleaned = _formulas(cleaned)
    return cleaned.strip()


def _without_scripts(html: str) -> str:
    """Scripts never run here, so what stands in `noscript` is what people are to see.

    Unless it repeats a picture that a script would have loaded late: that one is taken from `data-src` (see `_image`).
    """
    lazy = any(name in html for name in _LAZY)
    return _NOSCRIPT.sub(lambda found: "" if lazy and "<img" in found[1] else found[1], html)


def text_to_html(text: str) -> str:
    """Plain text as the HTML that shows it: paragraphs and line breaks kept."""
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
            # One each: nh3 adds several in an order that changes with every process, and so would every item's hash.
            "video": {"controls": ""},
            "audio": {"controls": ""},
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
    """A width or height in whole pixels, or for players in per cent; None for what tells nothing or leads astray."""
    found = _PIXELS.fullmatch(value)
    if found:
        return str(int(found[1])) if int(found[1]) <= MAX_SIZE else None
    return value.strip() if tag != "img" and _PER_CENT.fullmatch(value) else None


def clean_srcset(value: str, base: str) -> str | None:
    """A `srcset` with absolute URLs; candidates that aren't web addresses leave it."""
    kept = []
    for url, descriptors in candidates(value):
        if (safe := safe_url(url, base)) and not BEACON.search(safe):
            kept.append(f"{safe.replace(',', '%2C')} {descriptors}".strip())
    return ", ".join(kept) or None


def candidates(srcset: str) -> list[tuple[str, str]]:
    """The addresses in a `srcset`, each with what is said of it (`2x`, `640w`)."""
    return [(url.rstrip(","), descriptors.strip()) for url, descriptors in _CANDIDATE.findall(srcset)]


def _image(match: re.Match[str]) -> str:
    """An image tag as it may stay, or nothing where it has no source, is hidden, or is a tracking pixel."""
    if not _DOUBTFUL.search(match[1]):
        return match[0]
    found: dict[str, str] = dict(_ATTRIBUTE.findall(match[1]))
    lazy = next((found.pop(name) for name in _LAZY if found.get(name)), None)
    if lazy:
        # Scripts would have put it there; the placeholder in `src` shows nothing.
        found["src"] = lazy
    if not (found.get("src") or found.get("srcset")) or "style" in found:
        return ""
    sizes = {found[name].strip().removesuffix("px") for name in ("width", "height") if name in found}
    if sizes and sizes <= {"0", "1"}:
        return ""
    if lazy or any(name in found for name in _LAZY):
        return "<img " + " ".join(f'{name}="{value}"' for name, value in found.items() if name not in _LAZY) + ">"
    return match[0]


def without_images(cleaned: str, urls: Collection[str]) -> str:
    """A body from `clean_html` without its images of `urls`, which are shown beside it."""

    def keep(match: re.Match[str]) -> str:
        source = dict(_ATTRIBUTE.findall(match[1])).get("src")
        return "" if source is not None and entities.unescape(source) in urls else match[0]

    return _IMAGE.sub(keep, cleaned).strip()


def _frame(match: re.Match[str]) -> str:
    """A frame keeps its place only with a source; what stood between its tags never does."""
    return f"<iframe{match[1]} {_FRAME_RULES}></iframe>" if ' src="' in match[1] else ""


def _played(match: re.Match[str]) -> str:
    """Sound and film keep their place only with a source; what was meant for old browsers takes it otherwise."""
    return match[0] if ' src="' in match[0] else _SOURCE.sub("", match[2])


def _formulas(cleaned: str) -> str:
    """`cleaned` with nothing but MathML inside of formulas, and no formula in a formula.

    HTML may stand there, but where depends on the parser's state: markup that one parser takes for harmless text in a
    formula is a picture with a handler to another.
    """
    pieces = _FORMULA_TAG.split(cleaned)
    inside = False
    kept = [pieces[0]]
    for tag, closing, name, text in zip(pieces[1::4], pieces[2::4], pieces[3::4], pieces[4::4], strict=True):
        if name == "math":
            if inside == bool(closing):
                kept.append(tag)
            inside = not closing
        elif (name in MATH) == inside:
            kept.append(tag)
        kept.append(text)
    return "".join(kept)
