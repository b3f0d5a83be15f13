"""The source of a webmention: its link to the target, and its content. Pure; for the parser processes.

Spec: https://www.w3.org/TR/webmention/#webmention-verification. The target must be there exactly: in HTML as the
address of a link, in JSON as a value, in any other text as a separate word. The page's content is bounded and sanitised
like that of a look-up (`formats.references`).
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any
from urllib.parse import urljoin

import orjson

from microsub.base.urls import host_of, normalise_url, parts_of
from microsub.formats.encoding import decode
from microsub.formats.html import HTML_TYPES
from microsub.formats.html.trees import base_of, tree_of
from microsub.formats.references import bounded, head_entry, post_on
from microsub.model.jf2 import Card, Entry
from microsub.parsing.task import Task

_LINKS = {
    **dict.fromkeys(("a", "area", "link"), ("href",)),
    **dict.fromkeys(("img", "audio", "source", "iframe", "embed", "track"), ("src",)),
    "video": ("src", "poster"),
    "object": ("data",),
    **dict.fromkeys(("blockquote", "q", "ins", "del"), ("cite",)),
}
"""Elements that link, and their attributes with the address (https://html.spec.whatwg.org/#attributes-3)."""

KINDS = (
    ("reply", "in_reply_to"),
    ("repost", "repost_of"),
    ("like", "like_of"),
    ("bookmark", "bookmark_of"),
    ("follow", "follow_of"),
)
"""Relations of a page to another one other than a mention, and their properties."""
MENTION = "mention"

_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_BEFORE, _BEHIND = r"(?<![^\s<>(\[{\"'`,;|])", r"(?=[.,;:!?)\]}'\"`*_]*(?:[\s<>|]|\Z))"
"""Characters that may surround an address in a text; otherwise it is part of a longer one."""


def mention_in(body: bytes, url: str, content_type: str | None, source: str, target: str) -> Entry | None:
    """The mention of `target` in the document found at `url` (after redirects from `source`).

    None if it has no link to it. `post_type` is its relation to the target. Other pages that the post replies to or
    likes are left out, because the sender claimed nothing about them.
    """
    text, kind = decode(body, content_type), (content_type or "").partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        return _finished(Entry(), source, target) if _in_json(text, target) else None
    if kind in HTML_TYPES or (not kind and "<" in text):
        return _finished(_said_by(text, source, url), source, target) if _in_html(text, url, target) else None
    return _finished(Entry(), source, target) if _in_text(text, target) else None


MENTION_IN = Task(mention_in, thorough=False)


# --- the link -----------------------------------------------------------------------------------------------------


def _in_html(text: str, url: str, target: str) -> bool:
    tree = tree_of(text)
    base, wanted = base_of(tree, url), _comparable(target)
    for name, attributes in _LINKS.items():
        for node in tree.css(name):
            for attribute in attributes:
                written = (node.attributes.get(attribute) or "").strip()
                if written and (written == target or _comparable(_resolved(written, base)) == wanted):
                    return True
    return False


def _resolved(written: str, base: str) -> str:
    try:
        return urljoin(base, written)
    except ValueError:
        return written


def _comparable(url: str) -> str:
    """`url` with lower-case scheme and host, and `/` for an empty path; nothing else is normalised."""
    try:
        parts = parts_of(url)
        return parts._replace(netloc=parts.netloc.lower(), path=parts.path or "/").geturl()
    except ValueError:
        return url


def _in_json(text: str, target: str) -> bool:
    try:
        left = [orjson.loads(text)]
    except orjson.JSONDecodeError:
        return False
    while left:
        match left.pop():
            case str() as value if value == target:
                return True
            case dict() as members:
                left += members.values()
            case list() as members:
                left += members
    return False


def _in_text(text: str, target: str) -> bool:
    return re.search(_BEFORE + re.escape(target) + _BEHIND, _COMMENT.sub("", text)) is not None


# --- the content --------------------------------------------------------------------------------------------------


def _said_by(text: str, source: str, url: str) -> Entry:
    try:
        return post_on(text, source, url) or head_entry(text, url) or Entry()
    except Exception:
        # The underlying parsers can raise anything on hostile pages; the link counts anyway.
        return Entry()


def _finished(said: Entry, source: str, target: str) -> Entry:
    """The post of a webmention: bounded, by its author or site, about the target."""
    kind, about = _kind(said, target)
    shown = bounded(said, source, source)
    author = shown.author or Card()
    changes: dict[str, Any] = {name: () for _, name in KINDS}
    if about:
        changes[about] = (target,)
    else:
        changes["summary"] = shown.summary or f"mentions {target}"
    answers = kind == "reply" and said.post_type == "rsvp"
    return replace(
        shown,
        type="entry",
        post_type="rsvp" if answers else kind,
        rsvp=said.rsvp if answers else None,
        author=replace(author, name=author.name or host_of(source), url=author.url or source),
        refs=_context(said, target),
        **changes,
    )


def _context(said: Entry, target: str) -> dict[str, Entry | Card]:
    """The target as the post itself quotes it."""
    wanted = normalise_url(target)
    for url, ref in said.refs.items():
        if normalise_url(url) == wanted and isinstance(ref, Entry):
            return {target: bounded(ref, target, target)}
    return {}


def _kind(said: Entry, target: str) -> tuple[str, str]:
    """The post's relation to the target, and its property."""
    wanted = normalise_url(target)
    for kind, name in KINDS:
        if any(normalise_url(url) == wanted for url in getattr(said, name)):
            return kind, name
    return MENTION, ""
