"""Lists of feeds: OPML 1.0, 1.1 and 2.0 (http://opml.org/spec2.opml) and RDF to values, and OPML from them. Pure.

Real lists are often not well-formed XML: bare `&`, undeclared bytes, missing end tags, attributes in any case. So the
parser finds tags one by one, in text of any encoding, and records the line of every feed and folder. If the whole list
is unusable (another format, entities, a missing end, over the limits), it raises a ParseError that names the line. A
problem with a single feed is a `ListProblem`.

Lists written by this server (`FeedList.own`) have attributes of `NAMESPACE` for a channel's uid and settings and a
follow's own name, because OPML has none.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import NoReturn

from microsub.base.errors import ParseError
from microsub.base.plaintext import CONTROLS
from microsub.base.urls import safe_url, web_address
from microsub.formats.encoding import decode
from microsub.parsing.task import Task

NAMESPACE = "urn:microsub:opml"
PREFIX = "microsub"

MOST_BYTES = 16 * 1024 * 1024
MOST_OUTLINES = 50_000
MOST_DEPTH = 100
"""How deep folders may be nested."""
MOST_PROBLEMS = 1000
"""How many problems are listed individually."""
_LONGEST_TEXT = 1000
_SHOWN = 120
_JOINT = " / "
_FEED_TYPES = frozenset({"rss", "atom", "rdf", "xml", "feed", "rss1", "rss2", "pie", "jsonfeed"})
_PODCASTS = re.compile(r"(?i)(?:itpc|pcast|podcast|itms)://")
_SETTINGS_OF_OTHERS = frozenset({"tt-rss-prefs", "tt-rss-labels", "tt-rss-filters"})
"""Folders in which Tiny Tiny RSS exports its settings."""

# Possessive, so that it never backtracks. If its closing quote is missing, a value ends before the next outline.
_VALUE = r"\"(?:[^\"<]|<(?!/?outline\b))*+\"|'(?:[^'<]|<(?!/?outline\b))*+'"
_MARKUP = re.compile(
    r"<!--(?:.*?-->|(?P<open>.*))|<!\[CDATA\[.*?(?:\]\]>|\Z)|<\?.*?(?:\?>|\Z)"
    r"|(?P<entity><!ENTITY)|<!DOCTYPE[^\[<>]*+(?:\[(?P<subset>[^\]]{0,9999}+)\]\s*+)?>"
    rf"|</\s*+(?P<end>[\w:.-]++)[^<>]*+>|<(?P<start>[A-Za-z_][\w:.-]*+)(?P<attributes>(?:[^>\"'<]|{_VALUE})*+)>"
    r"|(?P<broken><outline\b)",
    re.S | re.I,
)
_ATTRIBUTE = re.compile(rf"([\w:.-]++)\s*+=\s*+({_VALUE}|[^\s\"'>]++)", re.S)
_REFERENCE = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_INVALID = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""Characters that XML 1.0 doesn't allow, and control characters that HTML reads as letters."""


@dataclass(frozen=True, slots=True)
class ListProblem:
    """Something in a list that can't be imported as it is: its line from 1, what was found, and why."""

    line: int
    found: str
    why: str


@dataclass(frozen=True, slots=True)
class OutlineFolder:
    """A folder; `uid` and `settings` (texts by name) are in lists written by this server."""

    line: int
    name: str
    uid: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OutlineFeed:
    """A feed in the folder with that index, -1 for none; `name` is the follower's name for it, `home` its page.

    `title` is its own title, set only when a list is written.
    """

    line: int
    url: str
    name: str = ""
    folder: int = -1
    home: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class FeedList:
    """A parsed list, in order; `more_problems` counts unlisted ones. `own`: this software wrote it."""

    own: bool
    folders: tuple[OutlineFolder, ...]
    feeds: tuple[OutlineFeed, ...]
    problems: tuple[ListProblem, ...] = ()
    more_problems: int = 0


def read_list(body: bytes) -> FeedList:
    """The feeds and folders of a list. Raises ParseError."""
    return _Reader(body).read()


READ_LIST = Task(read_list)


# --- reading --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Node:
    """An open element; `folder` is its index among the folders, -1 for a feed or none."""

    line: int
    name: str = ""
    folder: int = -1
    children: int = 0
    aside: bool = False
    says: str = ""


class _Reader:
    def __init__(self, body: bytes) -> None:
        if len(body) > MOST_BYTES:
            self._refuse(1, f"the list has {len(body)} bytes; the maximum is {MOST_BYTES}")
        if not body.strip():
            self._refuse(1, "the list is empty, expected OPML")
        self._text = decode(body, None)
        if self._text.lstrip("\ufeff \t\r\n").startswith(("{", "[")):
            self._refuse(1, "found JSON, expected OPML, which is XML")
        self._at = 0
        self._line = 1
        self._prefix = ""
        self._open: list[_Node] = []
        self._paths: list[tuple[str, ...]] = []
        self._folders: list[OutlineFolder] = []
        self._feeds: list[OutlineFeed] = []
        self._empty: set[int] = set()
        self._problems: list[ListProblem] = []
        self._skipped = 0
        self._outlines = 0

    def read(self) -> FeedList:
        root = ""
        ended = False
        for tag in _MARKUP.finditer(self._text):
            line = self._line_at(tag.start())
            subset = tag["subset"]
            if tag["entity"] or (subset and "<!entity" in subset.lower()):
                self._refuse(line, "the list declares entities, which isn't allowed")
            if tag["open"] is not None:
                self._refuse(line, "a comment isn't closed: the list is incomplete")
            if tag["broken"]:
                self._problem(
                    line, self._text[tag.start() : tag.start() + _SHOWN].partition("\n")[0], "the element can't be read"
                )
            elif tag["start"]:
                name = tag["start"].lower().rpartition(":")[2]
                if not root:
                    root = self._root(name, tag["attributes"], line)
                    ended = tag["attributes"].endswith("/")
                self._start(name, tag["attributes"], line, root)
            elif tag["end"]:
                name = tag["end"].lower().rpartition(":")[2]
                ended = ended or name in {root, "body"}
                self._end(name)
        if not root:
            self._refuse(1, "found no XML element, expected OPML")
        if not ended:
            self._refuse(self._line_at(len(self._text)), f"the list is incomplete: </{root}> is missing at the end")
        return self._result()

    def _root(self, name: str, attributes: str, line: int) -> str:
        if name not in {"opml", "rdf", "outline", "body"}:
            self._refuse(line, f"found <{name[:40]}>, expected <opml>")
        for key, value in _attributes(attributes):
            if key.startswith("xmlns:") and value == NAMESPACE:
                self._prefix = key[6:].lower() + ":"
        return name

    def _start(self, name: str, attributes: str, line: int, root: str) -> None:
        closed = attributes.endswith("/")
        if name == "outline":
            self._outlines += 1
            if self._outlines > MOST_OUTLINES:
                self._refuse(line, f"the list has more than {MOST_OUTLINES} outlines")
            self._outline(_named(attributes[:-1] if closed else attributes), line)
            if closed:
                self._end("outline")
        elif root == "rdf":
            self._rdf(name, _named(attributes), line)

    def _outline(self, said: Mapping[str, str], line: int) -> None:
        parent = self._open[-1] if self._open else None
        if parent is not None:
            parent.children += 1
        node = _Node(line)
        self._open.append(node)
        node.name = _line(said.get("text") or said.get("title") or "")
        kind = said.get("type", "").lower()
        address = said.get("xmlurl") or said.get("feedurl") or (said.get("url") if kind in _FEED_TYPES else "")
        settings = not address and not self._prefix and node.name in _SETTINGS_OF_OTHERS
        node.aside = settings or (parent is not None and parent.aside)
        if node.aside:
            return
        if address:
            own = _literal(said.get(f"{self._prefix}name", ""))
            self._feed(address, own if self._prefix else node.name, said, line)
            return
        node.says = said.get("htmlurl") or (kind if kind in _FEED_TYPES else "")
        if node.name or f"{self._prefix}uid" in said:
            self._folder(node, said, line)

    def _folder(self, node: _Node, said: Mapping[str, str], line: int) -> None:
        above = [one for one in self._open[:-1] if one.folder >= 0]
        if len(above) >= MOST_DEPTH:
            self._refuse(line, f"folders are nested more than {MOST_DEPTH} deep")
        self._paths.append((*(self._paths[above[-1].folder] if above else ()), node.name))
        node.folder = len(self._folders)
        own = {key.removeprefix(self._prefix): text for key, text in said.items() if key.startswith(self._prefix)}
        settings = own if self._prefix else {}
        uid, name = settings.pop("uid", ""), _literal(settings.pop("name", ""))
        self._folders.append(OutlineFolder(line, name or node.name, uid, settings))

    def _feed(self, address: str, name: str, said: Mapping[str, str], line: int) -> None:
        if not self._prefix:
            address = _PODCASTS.sub("http://", address.strip()).replace("&amp;", "&")
            if "://" not in address and re.match(r"[\w-]+(\.[\w-]+)+(/|\Z)", address):
                address = f"http://{address}"
        url = web_address(address) or safe_url(address)
        if url is None or web_address(url) is None:
            self._problem(line, address, "this can't be a feed's address: expected http or https")
            return
        home = safe_url(said.get("htmlurl")) or ""
        name = "" if web_address(name) else name
        folder = next((one.folder for one in reversed(self._open) if one.folder >= 0), -1)
        for place in [folder] if folder >= 0 else self._by_category(said.get("category", ""), line) or [-1]:
            if len(self._feeds) == MOST_OUTLINES:
                self._refuse(line, f"the list names more than {MOST_OUTLINES} feeds")
            self._feeds.append(OutlineFeed(line, url, name, place, home))

    def _by_category(self, category: str, line: int) -> list[int]:
        """The folders named by a feed outside of all folders, created if missing."""
        names = [tuple(_line(part) for part in one.split("/") if part.strip()) for one in category.split(",")]
        found = []
        for path in dict.fromkeys(name for name in names if name):
            if path not in self._paths:
                self._paths.append(path)
                self._folders.append(OutlineFolder(line, path[-1]))
            found.append(self._paths.index(path))
        return found

    def _end(self, name: str) -> None:
        if name == "outline" and self._open:
            node = self._open.pop()
            if node.folder >= 0 and not node.children:
                self._empty.add(node.folder)
            if node.says and not node.children:
                why = "it names a page but no feed (htmlUrl without xmlUrl)" if ":" in node.says else "it names no feed"
                self._problem(node.line, node.name or node.says, why)
                self._empty.discard(node.folder)

    def _rdf(self, name: str, said: Mapping[str, str], line: int) -> None:
        """Subscriptions as `rss:channel` with `rdf:about`, or the target of `rdfs:seeAlso`."""
        about = next((value for key, value in said.items() if key.rpartition(":")[2] == "about"), "")
        there = next((value for key, value in said.items() if key.rpartition(":")[2] == "resource"), "")
        address = about if name == "channel" else there if name == "seealso" else ""
        if not address:
            return
        self._outlines += 1
        if self._outlines > MOST_OUTLINES:
            self._refuse(line, f"the list names more than {MOST_OUTLINES} feeds")
        self._feed(address, "", {}, line)

    def _result(self) -> FeedList:
        used = {feed.folder for feed in self._feeds} | self._empty
        kept = [place for place in range(len(self._folders)) if place in used]
        paths = [self._paths[place] for place in kept]
        # A folder that only encloses all others isn't part of their names.
        loose = any(feed.folder < 0 for feed in self._feeds)
        wrapped = bool(paths) and not loose and not self._prefix and len({path[0] for path in paths}) == 1
        if wrapped and all(len(path) > 1 for path in paths):
            paths = [path[1:] for path in paths]
        folders = [
            self._folders[place]
            if self._prefix
            else replace(self._folders[place], name=_JOINT.join(filter(None, path)))
            for place, path in zip(kept, paths, strict=True)
        ]
        at = {place: index for index, place in enumerate(kept)} | {-1: -1}
        feeds = tuple(replace(feed, folder=at[feed.folder]) for feed in self._feeds)
        return FeedList(bool(self._prefix), tuple(folders), feeds, tuple(self._problems), self._skipped)

    def _line_at(self, place: int) -> int:
        self._line += self._text.count("\n", self._at, place)
        self._at = place
        return self._line

    def _problem(self, line: int, found: str, why: str) -> None:
        if len(self._problems) < MOST_PROBLEMS:
            self._problems.append(ListProblem(line, _line(found)[:_SHOWN], why))
        else:
            self._skipped += 1

    def _refuse(self, line: int, why: str) -> NoReturn:
        raise ParseError("the list", f"line {line}: {why}")


def _attributes(text: str) -> Iterator[tuple[str, str]]:
    for found in _ATTRIBUTE.finditer(text):
        value = found[2]
        if value[0] in "\"'":
            value = value[1:-1]
        yield found[1], _REFERENCE.sub(lambda one: html.unescape(one[0]), value) if "&" in value else value


def _named(text: str) -> dict[str, str]:
    """The attributes by name, in lower case, the first of each; blank ones are left out."""
    found: dict[str, str] = {}
    for name, value in _attributes(text):
        if value.strip():
            found.setdefault(name.lower(), value)
    return found


def _literal(text: str) -> str:
    """A text written by this server, decoded from JSON if an attribute couldn't contain its characters."""
    if text.startswith('"'):
        with suppress(ValueError):
            found = json.loads(text)
            return found if isinstance(found, str) else text
    return text


def _line(text: str) -> str:
    """A text of a list on one line."""
    return " ".join(_INVALID.sub("", text[: 4 * _LONGEST_TEXT]).split())[:_LONGEST_TEXT]


# --- writing --------------------------------------------------------------------------------------------------------


def write_list(title: str, created: str, folders: Iterable[tuple[OutlineFolder, Iterable[OutlineFeed]]]) -> bytes:
    """An OPML 2.0 list. A feed's `name` is the follower's name for it, otherwise its address.

    `created` is an RFC 822 date. Characters that XML doesn't allow are left out of texts; attributes of `NAMESPACE`
    have them as JSON.
    """
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<opml version="2.0" xmlns:{PREFIX}="{NAMESPACE}">',
        f"<head><title>{_escaped(title)}</title><dateCreated>{_escaped(created)}</dateCreated></head>",
        "<body>",
    ]
    for folder, feeds in folders:
        name = _line(folder.name)
        own = {"uid": folder.uid, "name": "" if name == folder.name else json.dumps(folder.name), **folder.settings}
        lines.append(f"<outline{_written({'text': name, 'title': name}, own)}>")
        for feed in feeds:
            shown = _line(feed.name or feed.title) or feed.url
            said = {"type": "rss", "text": shown, "title": shown, "xmlUrl": feed.url, "htmlUrl": feed.home}
            plain = feed.name == _line(feed.name) and feed.name[:1] != '"'
            lines.append(f"  <outline{_written(said, {'name': feed.name if plain else json.dumps(feed.name)})}/>")
        lines.append("</outline>")
    return "\n".join([*lines, "</body>", "</opml>", ""]).encode()


def _written(said: Mapping[str, str], own: Mapping[str, str]) -> str:
    named = {**said} | {f"{PREFIX}:{name}": text for name, text in own.items()}
    return "".join(f' {name}="{_escaped(text)}"' for name, text in named.items() if text)


def _escaped(text: str) -> str:
    """As the value of an attribute; characters that reverse or break lines become numeric references."""
    return CONTROLS.sub(lambda one: f"&#{ord(one[0])};", html.escape(_INVALID.sub("", text)))
