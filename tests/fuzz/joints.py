"""A fuzzer for the sanitiser that composes joints: tags in end tags, attributes across frames, ends without a start.

Each input is sanitised like a post's body, and the result is parsed by a browser's rules (Lexbor's parser): elements,
attributes and URLs must be allowed by the sanitiser, and the body must end at its end. Inputs that break this are
added to `tests/data/xss/joints.json` and are tried first in later runs.

    python -m tests.fuzz.joints INPUTS [SEED]     (or `make fuzz-html`)
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

from selectolax.lexbor import LexborHTMLParser, LexborNode

from microsub.formats.html.players import PLAYER
from microsub.formats.html.sanitise import ATTRIBUTES, SANDBOX, URL_ATTRIBUTES
from microsub.formats.html.shapes import TAGS
from microsub.formats.normalise import content_of

KEPT = Path(__file__).parents[1] / "data" / "xss" / "joints.json"
BASE = "https://s.example/posts/1"
_PLAYER = "https://www.youtube.com/embed/x"

_ADDED = {"a": {"rel"}, "iframe": {"sandbox"}, "div": {"id"}, "p": {"id"}}
_INSIDE = re.compile(r"#n[0-9a-f]{8}-\S{1,100}\Z")
_AROUND = frozenset({"html", "head", "body"})
_SCHEMES = (
    "https:",
    "http:",
    "mailto:",
    "tel:",
    "xmpp:",
    "geo:",
    "sms:",
    "magnet:",
    "ftp:",
    "irc:",
    "matrix:",
    "news:",
)

_PIECES = (
    *("<iframe>", "</iframe>", f"<iframe src={_PLAYER}>", f'<iframe src="{_PLAYER}"', "<iframe", "</iframe"),
    *("<img>", "<img x>", "<img src=a.png>", "<img src=a.png onerror=alert(1)", '<img title="', "<img title='", "<img"),
    *('<img src=x data-src="', "<img style=display:none>", "<img width=1 height=1 src=b>", "<img srcset='a 1x,"),
    *("<video>", "</video>", "<video src=v>", "<source>", "<source src=v", "<track>", "<audio>", "</audio>", "<audio"),
    *("<math>", "</math>", "<mtext>", "<mi>", "<mglyph>", "<annotation-xml encoding=text/html>", "<semantics>"),
    *("<svg>", "</svg>", "<foreignObject>", "<desc>", "<style>", "</style>", "<title>", "</title>", "<template>"),
    *("<noscript>", "</noscript>", "<textarea>", "</textarea>", "<xmp>", "</xmp>", "<noembed>", "<plaintext>"),
    *("<select>", "<option>", "<table>", "<tr>", "<td>", "</table>", "<form>", "</form>", "<p>", "</p>", "<pre>\n\n"),
    *("<a href=/x>", "</a>", '<a href="javascript:alert(1)">', "<b>", "</b>", "<div>", "</div>", "<br>", "<li><dd>"),
    *("<script>alert(1)</script>", "<svg onload=alert(1)>", "<details open ontoggle=alert(1)>", "<IFRAME "),
    *("<body onload=alert(1)>", "<base href=//evil.example>", "<meta http-equiv=refresh content=0>", "<link>"),
    *("<!--", "-->", "--!>", "<!-->", "<![CDATA[", "]]>", "<?x", "<!x", "</", "<", ">", "/>", "<<", "</>", "< "),
    *('"', "'", "`", "=", "/", " ", "\n", "\t", "\f", "\r", "\0", "x", "text", "&lt;", "&gt;", "&#60;", "&quot;"),
    *("&#1;", "\x01", "\x1b", "&#x9b;", "&nbsp;", "&#xD800;", "\ufeff", "\u2028", "ame>", "frame>", "/iframe>"),
    *('src="', "src='", "onerror=alert(1) ", "style=", "width=1 ", "data-src=x ", "title=</iframe> ", "</ifr"),
    *("<b id=a>", "<a name=a>", "<a href=#a>", "id='a' ", "id=box ", 'href="#box"', "id=n12345678-a "),
    *("<a href='/posts/1#a'>", "data-srcset=x ", "class=wp-smiley alt=😀 ", "<x-unscripted>", "https://t.example/"),
    *("<object data=x>", "</object>", "<embed src=e>", "<image href=i>", "<input type=image src=x>", "<amp-img src=x>"),
    *("<lite-youtube videoid=x>", "<amp-iframe src=x>", "<iframe src=//o.example/ title='", "<picture>"),
    *("<iframe><a href=/x>", "style='background-image:url(x)'", "<script type=math/tex>", "aria-hidden=true "),
    *("<span class=MathJax_Preview>", "https://t.example/&quot;onx="),
)  # fmt: skip


_HOLDERS = ("iframe", "video", "audio", "math", "noscript", "picture", "svg", "template", "select", "table", "title")
_REMOVED = (
    "<img>",
    "<img x",
    "<img y>",
    "<source>",
    "<track>",
    "<iframe></iframe>",
    "<video></video>",
    "\x01",
    "<b>",
    "<!---->",
)
_RUNNING = (
    "<script>alert(1)</script>",
    "<svg onload=alert(1)>",
    "<details open ontoggle=alert(1)>",
    "<img src onerror=alert(1)>",
)


def composed(rng: random.Random) -> str:
    """One input: a sequence of pieces, most of them with others inside; half of the inputs contain a joint."""
    pieces = [_piece(rng, 2) for _ in range(rng.randint(1, 6))]
    if rng.random() < 0.5:
        pieces.insert(rng.randint(0, len(pieces)), _joint(rng))
    return "".join(pieces)


def _joint(rng: random.Random) -> str:
    """An element with an interrupted end tag inside, whose middle may be removed; then something that would run."""
    name = rng.choice(_HOLDERS[:1] if rng.random() < 0.6 else _HOLDERS)
    start = rng.choice(("", " ", " x", f" src={_PLAYER}", " src=a", f' src="{_PLAYER}" title="', " srcset='"))
    end, at = f"</{name}>", rng.randint(0, len(name) + 2)
    inside = rng.choice((*_REMOVED, _piece(rng, 1)))
    return (
        f"<{name}{start}>{end[:at]}{inside}{end[at:]}{rng.choice((*_RUNNING, _piece(rng, 1)))}{rng.choice((end, ''))}"
    )


def _piece(rng: random.Random, depth: int) -> str:
    piece = rng.choice(_PIECES)
    if depth and rng.random() < 0.5:
        at = rng.randint(0, len(piece))
        piece = piece[:at] + _piece(rng, depth - 1) + piece[at:]
    return piece


def body_of(html: str) -> str:
    """`html` as the body of a post."""
    content = content_of(html, None, BASE)
    return (content.html if content else None) or ""


def harm(cleaned: str) -> str | None:
    """The harm that a browser would do with a body; None for a harmless one."""
    if "<" not in cleaned:
        return None
    tree = LexborHTMLParser(f'<!DOCTYPE html><body><div id="box">{cleaned}</div><p id="after"></p>')
    assert tree.root is not None
    for node in tree.root.traverse(include_text=False):
        if found := _node_harm(node):
            return found
    after = tree.css_first("#after")
    if after is None or after.parent is None or after.parent.tag != "body" or after.child is not None:
        return "it does not end where it ends"
    return None


def _node_harm(node: LexborNode) -> str | None:
    tag = node.tag or ""
    attributes = node.attributes
    if tag not in TAGS and tag not in _AROUND:
        return f"<{tag}>"
    known = ATTRIBUTES["*"] | ATTRIBUTES.get(tag, set()) | _ADDED.get(tag, set())
    if odd := attributes.keys() - known:
        return f"<{tag} {odd}>"
    if "name" in attributes or (
        "id" in attributes and tag not in {"div", "p"} and not _INSIDE.match(f"#{attributes['id']}")
    ):
        return f"<{tag} {attributes}>"
    for name in URL_ATTRIBUTES & attributes.keys():
        if name == "href" and _INSIDE.match(attributes[name] or ""):
            continue
        if not (attributes[name] or "").startswith(_SCHEMES):
            return f"<{tag} {name}={attributes[name]}>"
    if tag == "iframe":
        if attributes.get("sandbox") != SANDBOX or not PLAYER.match(attributes.get("src") or ""):
            return f"<iframe {attributes}>"
        if node.text():
            return "a frame with text in it"
    return None


def tried(inputs: Iterable[str], clean: Callable[[str], str] = body_of) -> Iterator[tuple[str, str]]:
    """The harmful ones of `inputs`, sanitised once or twice, with the harm."""
    for html in inputs:
        once = clean(html)
        if found := harm(once) or (harm(clean(once)) if "<" in once else None):
            yield html, found


def kept() -> list[str]:
    """Inputs that once did harm, or would do so without one of the sanitiser's steps."""
    inputs: list[str] = json.loads(KEPT.read_text())
    return inputs


def keep(inputs: Iterable[str]) -> None:
    """Add these to the inputs that are tried first."""
    KEPT.write_text(json.dumps([*dict.fromkeys([*kept(), *inputs])], indent=1) + "\n")


def endless(rng: random.Random) -> Iterator[str]:
    """Composed inputs."""
    while True:
        yield composed(rng)


def main() -> int:
    """Try the given number of composed inputs, and keep the harmful ones."""
    count = int(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(2**32)
    found = list(tried([*kept(), *islice(endless(random.Random(seed)), count)]))
    for html, what in found[:20]:
        print(f"{what}: {html!r}\n    {body_of(html)!r}")
    if found:
        keep(html for html, _ in found[:100])
    print(f"{count} inputs from seed {seed} and {len(kept())} kept ones: {len(found)} do harm")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
