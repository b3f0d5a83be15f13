"""HTML as readable text: paragraphs and lines break where browsers break them, without markup."""

from __future__ import annotations

import html as entities
import re
import unicodedata

_TAG = re.compile(r'<(/?)([a-zA-Z][a-zA-Z0-9]*+)[^>"]*+(?:"[^"]*+"[^>"]*+)*+>')
_TAGS = re.compile("<([^>]*)>")
_ALT = re.compile(r'\salt="([^"]*)"')
_PRE = re.compile(r"(<pre\b[^>]*>.*?</pre>)", re.S)
_SILENT = re.compile(r"<(video|audio|iframe)\b[^>]*>.*?</\1>", re.S)
_BLOCKS = re.compile("<(?:video|audio|iframe|pre)")
_UNREAD = re.compile(r"(?is)<(script|style)\b[^>]*>.*?</\1\s*>|<!--.*?-->|<!doctype\b[^<>]*>")
_BREAK = re.compile(r"[\x01\x02\n][ \x01\x02\n]*")
_SPACES = re.compile(r"  +")

MAX_TITLE = 4000

_C0 = bytes([*range(9), *range(11, 32), 127])
_C1 = re.compile(rb"\xc2[\x80-\x9f]")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_DIRECTIONS = re.compile("[\u202a-\u202e\u2066-\u2069]")
_MOST_ON_A_LETTER = 8
_PILES = re.compile(rf"[^\w\s\0-\u02ff]{{{_MOST_ON_A_LETTER + 1},}}")

_LINE = "\x01"
_PARAGRAPH = "\x02"
_KEPT_SPACE = "\x03"
_KEPT_NEWLINE = "\x04"
_BETWEEN = "\x05"
_CONTROLS = "".join(map(chr, range(9)))
_REMOVED = dict.fromkeys(range(9))

_PARAGRAPHS = "p h1 h2 h3 h4 h5 h6 blockquote ul ol dl pre table figure hr section article details"
_LINES = """div li dt dd tr caption figcaption header footer aside main address center summary thead tbody tfoot
    iframe video audio"""
_BREAKS = dict.fromkeys(_PARAGRAPHS.split(), _PARAGRAPH) | dict.fromkeys(_LINES.split(), _LINE)


def without_controls(text: str) -> str:
    """`text` without C0 and C1 control characters and DEL, which affect terminals and aren't text.

    Tabs and line feeds stay, other line ends become line feeds, and a form feed becomes a blank, since HTML counts it
    as white space. Call this after decoding: documents hide control characters in references (`&#27;`).
    """
    if text.isprintable():
        return text
    # Searching bytes costs a tenth of searching text.
    data = text.encode("utf-8", "surrogatepass")
    if len(data.translate(None, _C0)) == len(data) and not _C1.search(data):
        return text
    return _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n").replace("\f", " "))


def in_one_line(text: str) -> str:
    """A name or title with single blanks, without what would reach the lines around it.

    That are control characters, marks that reverse the text after them, and more than eight accents on a letter.
    """
    line = " ".join(without_controls(text).split())
    return line if line.isascii() else _PILES.sub(_lower_pile, _DIRECTIONS.sub("", line))


def _lower_pile(found: re.Match[str]) -> str:
    """What neither is a letter nor stands on a line, such as accents, but at most eight after the other."""
    kept: list[str] = []
    height = 0
    for one in found[0]:
        height = height + 1 if unicodedata.category(one)[0] == "M" else 0
        if height <= _MOST_ON_A_LETTER:
            kept.append(one)
    return "".join(kept)


def html_to_text(html: str) -> str:
    """The text of `html` from `sanitise.clean_html`: well-formed, with double quotes."""
    if "<" not in html:
        return " ".join(_plain(html).split())
    if any(control in html for control in _CONTROLS):
        html = html.translate(_REMOVED)
    if has_blocks := _BLOCKS.search(html):
        html = _SILENT.sub(_LINE, html)
    if has_blocks and "<pre" in html:
        parts = _PRE.split(html)
        parts[::2] = [_folded(part) for part in parts[::2]]
        parts[1::2] = [_keep(part) for part in parts[1::2]]
        html = "".join(parts)
    else:
        html = _folded(html)
    text = _plain(_without_tags(html))
    if "  " in text:
        text = _SPACES.sub(" ", text)
    text = _BREAK.sub(_run, text).replace(" \n", "\n")
    return text.replace(_KEPT_SPACE, " ").replace(_KEPT_NEWLINE, "\n").strip()


def _without_tags(html: str) -> str:
    """Sanitised markup with its tags replaced by breaks, blanks or nothing; each `<` starts a tag."""
    parts = _TAGS.split(html)
    parts[1::2] = map(_MARKS.__getitem__, parts[1::2])
    return "".join(parts)


class _Marks(dict[str, str]):
    """The replacement for each tag, cached, because nearly all tags are the same few."""

    def __missing__(self, inside: str) -> str:
        name, blank, _ = inside.partition(" ")
        if blank and name.isalnum() and (name != "img" or inside.isascii()):
            return self[name]  # the attributes count only for pictures of emoji
        match = _TAG.match(f"<{inside}>")
        mark = _tag(match) if match else ""
        if len(inside) < 16 and len(self) < 500:
            self[inside] = mark
        return mark


_MARKS = _Marks()


def title_text(markup: str) -> str:
    """A title, which may contain markup, as one line; cut at `MAX_TITLE`."""
    markup = _UNREAD.sub("", markup[:MAX_TITLE])
    return " ".join(entities.unescape(_TAG.sub(_tag, markup)).translate({1: " ", 2: " "}).split())


def _folded(text: str) -> str:
    """White space outside of `pre` as blanks; runs are collapsed after the tags are removed."""
    return text.replace("\n", " ").replace("\t", " ").replace("\r", " ").replace("\f", " ")


def _plain(text: str) -> str:
    """Decode the few entities that a serialiser leaves in text."""
    if "&" not in text:
        return text
    text = text.replace("&nbsp;", " ").replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", '"')
    return text.replace("&amp;", "&")


def _tag(match: re.Match[str]) -> str:
    name = match[2].lower()
    if found := _BREAKS.get(name):
        return found
    if name == "br":
        return "\n"
    if name in {"td", "th"}:
        return " "
    if name == "img" and (alt := _ALT.search(match[0])) and 0 < len(alt[1]) <= 8 and not alt[1].isascii():
        return alt[1]  # an emoji that a blog engine turned into a picture
    return ""


def _keep(block: str) -> str:
    """Keep the white space in `pre`, but not inside its tags, nor the line break that parsers ignore."""
    pieces = re.split(r"(<[^>]*>)", block.replace("\r", ""))
    pieces[2] = pieces[2].removeprefix("\n")
    text = _BETWEEN.join(pieces[::2]).replace("\t", "    ").replace(" ", _KEPT_SPACE).replace("\n", _KEPT_NEWLINE)
    pieces[::2] = text.split(_BETWEEN)
    return "".join(pieces)


def _run(match: re.Match[str]) -> str:
    run = match[0]
    return "\n\n" if _PARAGRAPH in run or run.count("\n") > 1 else "\n"
