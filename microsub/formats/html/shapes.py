"""Publishers' shapes of pictures, players and formulas as plain HTML, before it is sanitised.

Scripts, styles and elements that only exist in browsers put pictures and players into pages: the address is in an
attribute of the publisher's own, or in `noscript` beside a placeholder. Here these become `img`, `iframe` or a link.
Nothing here decides what is safe: `sanitise` does, and its parser has the last word.
"""

from __future__ import annotations

import html as entities
import re
from functools import cache
from operator import itemgetter
from urllib.parse import urlsplit

import nh3

from microsub.base.urls import LINK
from microsub.formats.html.players import frame, player_link

_LAZY = ("data-src", "data-lazy-src", "data-original")
"""Attributes that take precedence over `src`."""

_WEAK = """data-cfsrc data-lazyload data-lazy data-url data-orig data-hi-res-src data-actualsrc data-raw-src data-echo
    data-ezsrc data-defer-src data-delayed-url data-pagespeed-lazy-src data-flickity-lazyload data-image data-img-src
    data-full-src data-large-file data-orig-file data-medium-file"""
_INSTEAD = tuple(_WEAK.split())
"""Attributes that count if `src` shows nothing."""

_LAZY_SETS = ("data-srcset", "data-lazy-srcset")
_BEHIND = ("data-bg", "data-background-image", "data-background", "data-bgset")
_WAITING_FRAMES = "data-src data-lazy-src data-litespeed-src data-cookieblock-src data-consent-src data-src-cmplz"
_FRAMES = ("src", *_WAITING_FRAMES.split())
_KEPT = ("alt", "title", "width", "height", "sizes")

# Without flags and with the first letters, because that is three times as fast.
_ELEMENTS = re.compile(
    r"<(?=[aeilopsxEIO])(?:amp-|lite-|iframe|object|embed|x-unscripted|svg|input|picture|IFRAME|OBJECT|EMBED)"
)
_DATA = re.compile(
    r"\sdata-(?:src|lazy|orig|cfsrc|url|hi-res|actualsrc|raw-src|echo|ezsrc|defer|delayed|pagespeed|flickity|image|img"
    r"|full|large|medium|bg|background)"
)

_STYLED = re.compile(
    r"style=[^<>=]*?(?:display|visibility|DISPLAY|VISIBILITY|(?:width|height|WIDTH|HEIGHT):\s*[01](?:px|PX)?[\s;\"'&>])"
)
_PLAYED = frozenset(["audio", "video", "source"])
_ASLEEP = (("data-src", "src"), ("data-srcset", "srcset"), ("data-poster", "poster"))

_EXTRA = """amp-img amp-anim amp-iframe amp-youtube amp-vimeo amp-video amp-audio lite-youtube lite-vimeo object embed
    param x-unscripted svg image input nobr mjx-container mjx-math mjx-assistive-mml"""
_BOXES = frozenset(["div", "span", "figure", "section", "a", "p", "i", "li"])
_FORMULA_BOXES = frozenset(["span", "nobr", "mjx-math"])

_TEX = re.compile(r"(?is)<script\b[^<>]{0,200}math/tex([^<>]{0,100})>((?:[^<]|<(?!/?script))*+)</script\s*>")
_FIRST_BREAK = re.compile(r"<pre(?: [^<>]*)?>(?=\n)")
_SIZED_BY_STYLE = re.compile(r"(?i)(?:^|[;\s])(?:width|height):\s*(?:auto|\d\d)")
"""As Next.js writes `width="0" height="0"` for a picture as wide as the text."""

_EMBEDDED = re.compile(
    r"(?i)<script\b[^<>]{0,300}?\ssrc=[\"']?(?:https?:)?//"
    r"((?:gist\.github\.com|asciinema\.org/a|jsfiddle\.net)/[\w/-]{1,100}?)(?:\.js\b|/embed/)[^<>]{0,300}>\s*</script\s*>"
)
"""Scripts that write what their page shows; publishers write nothing else in these places."""

_BEHIND_MATHML = re.compile(r"(?i)</math>(?:\s*</?[a-z][^<>]*>)*+\s*\Z")
_NEAR = 300
_UNSEEN = re.compile(r"(?i)display:\s*none|visibility:\s*hidden")
_NO_SIZE = re.compile(r"(?i)(?:^|[;\s])(?:width|height):\s*[01](?:px)?\s*(?:;|$)")
_STRETCHED = re.compile(r"(?i)\bmin-(?:width|height):\s*\d\d")
"""As in `width: 0; min-width: 100%`, which charts have in order to be as wide as the text."""
_BACKGROUND = re.compile(r"(?i)background(?:-image)?\s*:[^;]{0,200}?url\(\s*[\"']?([^\"')\s]{1,2000})")
_NOTHING = (
    r"(?:placeholder|blank|spacer|transparent|lazy|loading|grey|gray|1x1|pixel|empty)"
    r"[\w-]{0,60}\.(?:gif|png|svg|jpe?g|webp)"
)
_PLACEHOLDER = re.compile(rf"(?i)\A\s*\Z|data:|about:|#|\S*{_NOTHING}(?:[?#]|\Z)")
_IMAGE = re.compile(r"<img[^<>]*")
_WAITING = re.compile(rf"(?i)\ssrc=[\"']?(?:[\"'\s#]|data:|about:)|{_NOTHING}")
_PICTURE_NAME = re.compile(r"(?i)\.(?:jpe?g|png|gif|webp|avif|svg)(?:[?#]|\Z)")
_SIZE_IN_NAME = re.compile(r"(?i)[-_](?:\d{2,5}x\d{2,5}|scaled)(?=\.\w+\Z)")
_EMOJI_FILE = re.compile(r"(?i)//s\.w\.org/images/(?:core/emoji|smilies)/|/images/smilies/")
_EMOJI_CLASS = re.compile(r"(?i)(?:\A|\s)(?:wp-)?(?:emoji|smiley)(?:\s|\Z)")
_ATTRIBUTE = re.compile(r'\s([^\s<>="]+)="([^"]*)"')
_PREVIEW = re.compile(r"(?i)(?:\A|\s)MathJax_Preview(?:\s|\Z)")
_LONGEST_EMOJI = 16
_INLINE = """a abbr b bdi bdo br cite code data del dfn em font i img ins kbd mark q rb rp rt rtc ruby s samp small span
    strike strong sub sup time tt u var wbr"""
_BLOCK = """address article aside blockquote caption center col colgroup dd details div dl dt figcaption figure footer
    h1 h2 h3 h4 h5 h6 header hr li main ol p pre section summary table tbody td tfoot th thead tr ul"""
_MEDIA = "audio iframe picture source track video"
_MATH = """math merror mfrac mi mmultiscripts mn mo mover mpadded mphantom mprescripts mroot mrow ms mspace msqrt mstyle
    msub msubsup msup mtable mtd mtext mtr munder munderover semantics"""

MATH = frozenset(_MATH.split())
TAGS = frozenset(f"{_INLINE} {_BLOCK} {_MEDIA}".split()) | MATH

_ORDINARY = TAGS - {"img", "picture", "source"}
"""Elements that are never rewritten without attributes."""

# Their content isn't text for people, so it is removed too.
_UNREAD = """script style svg template select textarea button noscript noembed noframes object applet title head xmp
    plaintext annotation annotation-xml"""
DROPPED = frozenset(_UNREAD.split())

_FAR = 40
"""Tokens between a lazy picture and the `noscript` that repeats it."""

UNSCRIPTED = "x-unscripted"
"""The name of `noscript` elements here, because parsers take their content for text."""

_NOSCRIPT = re.compile(r"(?i)<(/?)noscript\b")

Token = re.Match[str]

# Everything that `nh3` writes is one of these: a frame with its raw text, a tag, or text, in which `<` is a reference.
_TOKEN = re.compile(
    r"""
    <iframe(?P<frame>(?:\s[^\s<>="]+="[^"]*")*)>(?P<inner>.*?)</iframe>
  | <(?P<closing>/?)(?P<name>(?!iframe\b)[a-z][a-z0-9-]*)(?P<attributes>(?:\s[^\s<>="]+="[^"]*")*)>
  | (?P<text>[^<]+)
""",
    re.S | re.X,
)


def pieces(cleaned: str) -> list[Token] | None:
    """The sanitiser's result as tokens; None if it has an unexpected form.

    Groups: `frame` (attributes of a whole frame) and `inner`, `name` of a tag with `closing` and `attributes`, or
    `text`.
    """
    tokens = list(_TOKEN.finditer(cleaned))
    return tokens if sum(map(len, map(itemgetter(0), tokens))) == len(cleaned) else None


def attributes_of(token: Token) -> dict[str, str]:
    """The attributes of a tag or frame, with their values as written, which are safe in double quotes."""
    return dict(_ATTRIBUTE.findall(token["frame"] or token["attributes"] or ""))


def with_first_breaks(cleaned: str) -> str:
    """What `nh3` wrote, with the line breaks that parsers would ignore, because they are first in `pre`, doubled."""
    return _FIRST_BREAK.sub(r"\g<0>\n", cleaned)


@cache
def _reader() -> nh3.Cleaner:
    """The parser of what publishers write: it keeps everything that is looked at here."""
    names = """title lang dir id name class style src srcset sizes alt width height href hreflang xlink:href cite value
        controls loop span datetime open allowfullscreen loading display alttext linethickness mathvariant stretchy
        fence separator form largeop movablelimits accent displaystyle scriptlevel columnspan rowspan accentunder start
        reversed type media colspan align scope kind label srclang poster data videoid playlabel videotitle aria-hidden
        aria-label"""
    extra = frozenset(_EXTRA.split())
    return nh3.Cleaner(
        tags=set(TAGS | extra),
        clean_content_tags=set(DROPPED - extra),
        attributes={"*": set(names.split())},
        generic_attribute_prefixes={"data-"},
        link_rel=None,
        url_schemes=set(LINK),
    )


def unscripted(html: str) -> str:
    """`html` with `noscript` elements as ordinary ones: scripts never run here."""
    if "noscript" in html or "NOSCRIPT" in html:
        return _NOSCRIPT.sub(rf"<\1{UNSCRIPTED}", html)
    return html


def plain_shapes(html: str, base: str) -> str:
    """`html` with publishers' own shapes as plain HTML, unsanitised; links are relative to `base`."""
    if "<script" in html:
        html = _EMBEDDED.sub(lambda script: player_link(f"https://{script[1]}"), html)
    if not _may_have_shapes(html):
        return html
    formulas = "<math" in html or "<MATH" in html
    if "math/tex" in html:
        html = _TEX.sub(_formula, html)
    tokens = pieces(with_first_breaks(_reader().clean(html)))
    return html if tokens is None else _Rewriting(tokens, base, formulas=formulas).html()


def _may_have_shapes(html: str) -> bool:
    """A cheap check that may wrongly return True, or miss capitals: most bodies are left alone."""
    if _ELEMENTS.search(html) or ("data-" in html and _DATA.search(html)):
        return True
    if "<img" in html:
        if "emoji" in html or "smil" in html or _STYLED.search(html) or ('width="0"' in html and "style=" in html):
            return True
        if "srcset" in html and "style=" in html and _is_waiting(html):
            return True
    if "url(" in html and "background" in html:
        return True
    if "ath" not in html:
        return False
    return "ath/tex" in html or "MathJax_Preview" in html or ("aria-h" in html and "<math" in html)


def _is_waiting(html: str) -> bool:
    """Whether a picture with a `srcset` seems to have a placeholder as its source."""
    return any("srcset" in image[0] and _WAITING.search(image[0]) for image in _IMAGE.finditer(html))


def _formula(script: re.Match[str]) -> str:
    """TeX between the marks that its users know; nothing behind a formula in MathML, which says the same."""
    if _BEHIND_MATHML.search(script.string[max(0, script.start() - _NEAR) : script.start()]):
        return ""
    begin, end = ("\\[", "\\]") if "display" in script[1] else ("\\(", "\\)")
    return f"{begin}{entities.escape(entities.unescape(script[2]).strip(), quote=False)}{end}"


class _Rewriting:
    """The tokens of one body, rewritten in one pass."""

    def __init__(self, tokens: list[Token], base: str, *, formulas: bool) -> None:
        self._tokens = tokens
        self._base = base
        self._formulas = formulas
        self._kept: list[str] = []
        self._from_noscript: set[str] = set()
        self._framed: set[str] = set()
        # The places of pictures that a script would load, by their keys.
        self._lazy: dict[str, int] = {}
        self._shown_up_to = 0
        # The last picture: its place in the result and among the tokens, its key, and whether it shows anything.
        self._last: tuple[int, int, str, bool] | None = None
        self._sources: list[str] = []
        self._in_picture = False

    def html(self) -> str:
        place = 0
        while place < len(self._tokens):
            token = self._tokens[place]
            is_text = token.lastgroup == "text"
            if is_text or (token["name"] in _ORDINARY and not token["attributes"]):  # nearly all
                if is_text and not token[0].isspace():
                    self._last = None
                self._kept.append(token[0])
                place += 1
            else:
                place = self._take(place)
        return "".join(self._kept)

    def _take(self, place: int) -> int:
        """Rewrite the frame or tag at `place`; returns where the next begins."""
        token = self._tokens[place]
        name, closing = token["name"], token["closing"]
        if name is None:
            self._kept.append(self._frame(attributes_of(token), token["inner"]))
        elif name == UNSCRIPTED:
            if not closing and place >= self._shown_up_to:
                end = self._after(place)
                if self._is_repeated(place, end):
                    return end
                self._shown_up_to = end
        elif name in {"img", "image", "input", "amp-img", "amp-anim"}:
            if not closing:
                self._picture(place, name, attributes_of(token), token[0])
        elif name in {"object", "svg"}:
            if not closing:
                end = self._after(place)
                if self._boxed(name, place, end):
                    return end
        elif name == "embed" or name.startswith(("amp-", "lite-")):
            self._kept.append(self._player(name, attributes_of(token), bool(closing)))
        elif not closing and self._repeats_formula(token):
            return self._after(place)
        else:
            if name in {"picture", "source"}:
                self._note_source(token)
            self._kept.append(_awake(token) if name in _PLAYED and "data-" in token[0] else token[0])
            if name in _BOXES and not closing and ("style=" in token[0] or "data-" in token[0]):
                self._background(place, attributes_of(token))
        return place + 1

    def _after(self, place: int) -> int:
        """The place behind the element that begins at `place`."""
        name, depth = self._tokens[place]["name"], 0
        for other in range(place, len(self._tokens)):
            token = self._tokens[other]
            if token["name"] == name:
                depth += -1 if token["closing"] else 1
                if depth == 0:
                    return other + 1
        return place + 1

    def _frame(self, found: dict[str, str], inner: str) -> str:
        source = _frame_source(found)
        is_lazy = bool(source) and source != found.get("src")
        if is_lazy and source in self._framed:
            return ""
        self._framed.add(source)
        sizes = {found[name].strip().removesuffix("px") for name in ("width", "height") if name in found}
        if (sizes and sizes <= {"0", "1"}) or _is_hidden(found.get("style", "")):
            # Nobody sees it, but the link in it may be all that is left of a player, as of code in Medium's posts.
            return "" if source else frame("", self._base, "", inner)
        if "wp-embedded-content" in found.get("class", ""):
            return ""  # the link beside it is better
        size = "".join(
            f' {name}="{found[name]}"' for name in ("width", "height", "allowfullscreen", "loading") if name in found
        )
        return frame(entities.unescape(source), self._base, entities.unescape(found.get("title", "")), inner, size)

    def _player(self, name: str, found: dict[str, str], closing: bool) -> str:
        """An element that a script replaces by a player."""
        kind = name.rpartition("-")[2]
        if kind in {"video", "audio"}:
            source = f' src="{found["src"]}"' if "src" in found else ""
            return f"</{kind}>" if closing else f"<{kind}{source}>"
        if closing:
            return ""
        number = found.get("videoid") or found.get("data-videoid") or ""
        if kind in {"youtube", "vimeo"} and re.fullmatch(r"[\w-]{1,40}", number):
            host = "www.youtube.com/embed" if kind == "youtube" else "player.vimeo.com/video"
            title = found.get("playlabel") or found.get("videotitle") or found.get("title", "")
            return frame(f"https://{host}/{number}", self._base, entities.unescape(title))
        return self._frame(found, "")

    def _boxed(self, name: str, place: int, end: int) -> bool:
        """What an `object` or `svg` shows: a frame, or the picture in it.

        False if what it has for other browsers says more.
        """
        parts = self._tokens[place:end]
        if name == "svg":
            for token in parts:
                if token["name"] == "image" and not token["closing"]:
                    self._picture(place, "image", attributes_of(token))
            return True
        found = attributes_of(parts[0])
        if found.get("type", "").startswith("image/") and "data" in found:
            self._picture(place, "img", {"src": found["data"]})
            return True
        inner = next((token for token in parts if token["name"] is None and token["frame"] is not None), None)
        if inner is not None:
            self._kept.append(self._frame(attributes_of(inner), inner["inner"]))
            return True
        sources = [found.get("data")]
        for token in parts[1:]:
            values = attributes_of(token)
            if token["name"] == "embed" or values.get("name", "").lower() in {"movie", "src", "url"}:
                sources.append(values.get("src") or values.get("value"))
        source = next((one for one in sources if _shows(one)), "") or ""
        inside = "".join(token[0] for token in parts[1:-1])
        shown = self._frame({"src": source, "title": found.get("title", "")}, "") if source else ""
        if not shown.startswith("<iframe") and "<object" not in inside and ("<a " in inside or not shown):
            return False
        self._kept.append(shown)
        return True

    def _picture(self, place: int, name: str, found: dict[str, str], written: str = "") -> None:
        if name == "input" and found.get("type", "").lower() != "image":
            return
        source, is_lazy = self._address(name, found)
        sources = next((found[one] for one in _LAZY_SETS if found.get(one)), found.get("srcset", ""))
        if self._in_picture and not source and not sources:
            sources = next(iter(self._sources), "")
        if emoji := _emoji(found, source):
            self._kept.append(emoji)
            return
        if _is_hidden(found.get("style", "")):
            return
        if self._formulas and found.get("aria-hidden") == "true" and "math" in found.get("class", ""):
            return  # MediaWiki's picture of the formula before it
        key = _key(source or sources)
        if is_lazy and key in self._from_noscript:
            return
        if is_lazy:
            self._lazy[key] = place
        names = [one for one in _KEPT if one in found]
        if {found.get("width"), found.get("height")} == {"0"} and _SIZED_BY_STYLE.search(found.get("style", "")):
            names, written = [one for one in names if found[one] != "0"], ""
        kept = {"src": source, "srcset": sources, **{one: found[one] for one in names}}
        self._last = (len(self._kept), place, key, bool(source and _shows(source)) or bool(sources))
        if name == "img" and (source, sources) == (found.get("src", ""), found.get("srcset", "")) and written:
            self._kept.append(written)
        else:
            self._kept.append("<img" + "".join(f' {one}="{value}"' for one, value in kept.items() if value) + ">")

    def _address(self, name: str, found: dict[str, str]) -> tuple[str, bool]:
        """A picture's address, and whether a script would have put it there; '' if only its `srcset` shows anything."""
        if lazy := next((found[one] for one in _LAZY if _shows(found.get(one))), ""):
            return lazy, True
        source = found.get("src") or (found.get("href") or found.get("xlink:href", "") if name == "image" else "")
        if _shows(source):
            return source, False
        if weak := next((found[one] for one in _INSTEAD if _shows(found.get(one))), ""):
            return weak, True
        lazy_set = any(found.get(one) for one in _LAZY_SETS)
        return ("" if lazy_set or found.get("srcset") else source), lazy_set

    def _note_source(self, token: Token) -> None:
        if token["name"] == "picture":
            self._in_picture, self._sources = not token["closing"], []
        else:
            found = attributes_of(token)
            lazy = next((found[one] for one in _LAZY_SETS if found.get(one)), "")
            if sources := lazy or found.get("srcset", ""):
                self._sources.append(sources)

    def _background(self, place: int, found: dict[str, str]) -> None:
        """The picture behind an empty box."""
        following = self._tokens[place + 1] if place + 1 < len(self._tokens) else None
        if following is None or following["name"] != self._tokens[place]["name"] or not following["closing"]:
            return
        style = _BACKGROUND.search(entities.unescape(found.get("style", "")))
        named = next((found[one] for one in (*_LAZY, *_BEHIND) if _PICTURE_NAME.search(found.get(one, ""))), "")
        source = named or (entities.escape(style[1]) if style else "")
        if _shows(source):
            self._kept.append(f'<img src="{source}" alt="{found.get("aria-label", "")}">')

    def _is_repeated(self, place: int, end: int) -> bool:
        """Whether a `noscript` only repeats the pictures or frames before it.

        A placeholder before it is removed, because the picture itself is in the `noscript`.
        """
        inside = [
            attributes_of(token) for token in self._tokens[place:end] if token["name"] == "img" and not token["closing"]
        ]
        frames = {_frame_source(attributes_of(token)) for token in self._tokens[place:end] if token["frame"]}
        if frames and not inside and frames <= self._framed:
            return True
        keys = {_key(self._address("img", found)[0]) for found in inside}
        last, self._last = self._last, None
        if keys and all(place - self._lazy.get(key, -_FAR - 1) <= _FAR for key in keys):
            return True
        if last is not None and place - last[1] <= _FAR:
            if last[2] in keys:
                return True
            if inside and not last[3]:
                self._kept[last[0]] = ""
        self._from_noscript |= keys
        return False

    def _repeats_formula(self, token: Token) -> bool:
        """Whether an element shows again what MathML or TeX says."""
        if token["name"] not in _FORMULA_BOXES or not ("aria-hidden" in token[0] or "MathJax_Preview" in token[0]):
            return False
        found = attributes_of(token)
        hidden = self._formulas and found.get("aria-hidden") == "true"
        return hidden or bool(_PREVIEW.search(found.get("class", "")))


def _awake(token: Token) -> str:
    """The tag of a player that waits for a script, with its addresses where browsers look for them."""
    found = attributes_of(token)
    for lazy, name in _ASLEEP:
        if found.get(lazy) and not _shows(found.get(name)):
            found[name] = found[lazy]
    return f"<{token['name']}" + "".join(f' {name}="{value}"' for name, value in found.items()) + ">"


def _frame_source(found: dict[str, str]) -> str:
    return next((found[name] for name in _FRAMES if _shows(found.get(name))), "")


def _is_hidden(style: str) -> bool:
    """Whether nobody sees an element with that style."""
    return bool(_UNSEEN.search(style) or (_NO_SIZE.search(style) and not _STRETCHED.search(style)))


def _shows(source: str | None) -> bool:
    """Whether an address may be a picture's or player's, rather than a placeholder's."""
    return bool(source) and not _PLACEHOLDER.match(source or "")


def _key(source: str) -> str:
    """What the addresses of one picture in several sizes have in common."""
    try:
        path = urlsplit(entities.unescape(source).split(" ", 1)[0]).path
    except ValueError:
        return source
    name = _SIZE_IN_NAME.sub("", path.rpartition("/")[2])
    return name if "." in name or len(name) > 10 else source


def _emoji(found: dict[str, str], source: str) -> str:
    """The text of an emoji that a blog engine turned into a picture, as HTML; '' for other pictures."""
    alt, classes = entities.unescape(found.get("alt", "")), found.get("class", "")
    if not 0 < len(alt) <= _LONGEST_EMOJI:
        return ""
    if "wp-smiley" in classes or _EMOJI_FILE.search(source):
        return entities.escape(alt, quote=False)
    if not _EMOJI_CLASS.search(classes):
        return ""
    is_one = any(ord(char) > 0x203B for char in alt) and not any(char.isalpha() or char == " " for char in alt)
    return entities.escape(alt, quote=False) if is_one else ""
