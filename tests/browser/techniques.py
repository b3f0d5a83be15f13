"""The cases of `tests/data/xss`: published ways to get code past a filter. See the README there."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).parents[1] / "data" / "xss"
OUT = "https://out.example"
TOGETHER = 12
"""Handlers in one case; there are some 150."""

_FILTER = re.compile(r"\[\[(\w+):(.*?)\]\]", re.S)

# Every attribute that takes an address, on an element that uses it.
_SINKS = (
    "<a href=\"{q}\">x</a><a href='{s}'>x</a><a href={u}>x</a>",
    '<img src="{q}"><img src={u}><img data-src="{q}"><input type=image src="{q}">',
    '<img srcset="{q} 2x" src="https://ok.example/i.gif"><picture><source srcset="{q}"><img></picture>',
    '<video src="{q}" poster="{q}"><source src="{q}"><track src="{q}" default></video><audio src="{q}"></audio>',
    '<iframe src="{q}"></iframe><embed src="{q}"><object data="{q}"></object>',
    '<form action="{q}"><button>x</button><button formaction="{q}">y</button></form>',
    '<svg><a href="{q}"><text y="20">x</text></a><a xlink:href="{q}"><text y="20">x</text></a><use href="{q}"/></svg>',
    '<math href="{q}"><mi xlink:href="{q}">x</mi></math><map><area href="{q}"></map>',
    '<blockquote cite="{q}">x</blockquote><q cite="{q}">x</q><del cite="{q}">x</del><table background="{q}"></table>',
    '<p style="background:url({q})">x</p><style>@import "{s}";</style><link rel="stylesheet" href="{q}">',
    '<meta http-equiv="refresh" content="0;url={q}"><base href="{q}"><a href="x">x</a>',
)


@dataclass(frozen=True)
class Technique:
    """One case. `number` is its argument to `ran`; `address` means that it replaces an address, not HTML."""

    number: int
    group: str
    name: str
    payload: str
    address: bool

    def __str__(self) -> str:
        return f"{self.group}: {self.name}"


def techniques() -> list[Technique]:
    """All of them, numbered from 1."""
    found = [*_markup(), *_addresses(), *_handlers()]
    return [
        Technique(number, group, name, _written(text.replace("RUN", f"ran({number})")), address)
        for number, (group, name, text, address) in enumerate(found, 1)
    ]


def as_markup(technique: Technique) -> Iterator[str]:
    """The technique as HTML: unchanged, or an address in every attribute that takes one."""
    if not technique.address:
        yield technique.payload
        return
    text = technique.payload
    # References have an effect inside quotes; quotes themselves are written both ways.
    for sink in _SINKS:
        yield sink.format(q=text, s=text, u=text)
        if '"' in text or "'" in text:
            yield sink.format(q=html.escape(text), s=html.escape(text), u=html.escape(text))


def _markup() -> Iterator[tuple[str, str, str, bool]]:
    for group, name, text in _cases(DATA / "markup.txt"):
        yield group, name, text, False


def _addresses() -> Iterator[tuple[str, str, str, bool]]:
    for group, name, text in _cases(DATA / "addresses.txt"):
        yield f"addresses, {group}", name, text, True


def _handlers() -> Iterator[tuple[str, str, str, bool]]:
    names = (DATA / "handlers.txt").read_text().split()
    for first in range(0, len(names), TOGETHER):
        some = names[first : first + TOGETHER]
        h = " ".join(f'{name}="RUN"' for name in some)
        markup = (
            f"<img src=x {h}><svg {h}></svg><video src=x {h}><source src=x {h}></video><details open {h}>x</details>"
            f'<p tabindex=0 {h}>x</p><body {h}><a href="#" {h}>x</a><form {h}><input {h} value=x autofocus></form>'
            f"<svg><set attributeName=x {h} dur=1ms /></svg><table {h}><td {h}>x</table><math {h}><mi {h}>x</mi></math>"
        )
        yield "every handler", f"{some[0]} to {some[-1]}", markup, False


def _cases(path: Path) -> Iterator[tuple[str, str, str]]:
    group = ""
    for part in re.split(r"^(?==?=?[=#]{2} )", path.read_text(encoding="utf-8"), flags=re.M):
        heading, _, text = part.partition("\n")
        if heading.startswith("## "):
            group = heading[3:]
        elif heading.startswith("== "):
            yield group, heading[3:], text.removesuffix("\n")


def _written(text: str) -> str:
    return _FILTER.sub(lambda found: _WAYS[found[1]](found[2]), text).replace("OUT", OUT)


def _repeated(text: str) -> str:
    times, _, piece = text.partition(":")
    return int(times) * piece


_WAYS: dict[str, Callable[[str], str]] = {
    "x": lambda text: "".join(chr(int(code, 16)) for code in text.split()),
    "dec": lambda text: "".join(f"&#{ord(char)};" for char in text),
    "dec7": lambda text: "".join(f"&#{ord(char):07}" for char in text),
    "hex": lambda text: "".join(f"&#x{ord(char):X};" for char in text),
    "b64": lambda text: base64.b64encode(text.encode()).decode(),
    "pct": lambda text: "".join(f"%{ord(char):02x}" for char in text),
    "utf7": lambda text: "".join(c if c.isalnum() else f"+{_utf7(c)}-" for c in text),
    "full": lambda text: "".join(chr(ord(c) + 0xFEE0) if 0x20 < ord(c) < 0x7F else c for c in text),
    "esc": html.escape,
    "rep": _repeated,
}


def _utf7(char: str) -> str:
    return base64.b64encode(char.encode("utf-16-be")).decode().rstrip("=")
