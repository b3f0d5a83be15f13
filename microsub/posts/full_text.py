"""The full text of a post, from the page that it links to, beside the text of its feed. Pure.

It is a field of the item of its own, so an edit of the feed never changes it. Each follower chooses which text to see.
Players in the feed's text that the article doesn't have, as most pages load theirs by scripts, stand above it; and the
first picture, if the article has none.
"""

from __future__ import annotations

import re
from html import escape, unescape
from itertools import islice
from typing import Any, NamedTuple

import orjson

from microsub.formats.html.players import names_player, page_of
from microsub.formats.wire import dump
from microsub.model.jf2 import Content
from microsub.posts.packing import packed

FULL = "Full"
"""The field of an item with its full text, packed."""

AUTOMATIC = "full_auto"
"""The field of an item whose full text is also shown to followers with the choice `auto`: its feed cuts its posts."""

FULL_OF = "full_of"
"""The field of an item with the link whose page was read last, also if it had no article."""

_LARGEST_ITEM = 3 * 1024 * 1024
"""Bytes of an item with its full text, so that apps are never sent much more than for an item of a feed."""


def stored_full_text(article: Content) -> bytes:
    """The value of the field `FULL` for an article whose HTML is sanitised."""
    return packed(dump({"html": article.html or "", "text": article.text or ""}))


class Texts(NamedTuple):
    """The JSON of an item with the text of its feed, and with its full text; `automatic` as in `AUTOMATIC`."""

    own: bytes
    full: bytes
    automatic: bool


def with_full(data: bytes, full: bytes, *, automatic: bool) -> bytes | Texts:
    """The texts of an item, from its JSON and the unpacked field `Full`; only the JSON if they don't fit."""
    try:
        content: dict[str, str] = orjson.loads(full)
        wire: dict[str, Any] = orjson.loads(data)
    except ValueError:
        return data  # one of them is corrupt, which was logged when it was unpacked
    own = (wire.get("content") or {}).get("html") or ""
    content["html"] = _with_players(content["html"], own)
    if "<img" not in content["html"] and not wire.get("photo") and (picture := _picture(own)):
        content["html"] = f"<div>{picture}</div>{content['html']}"
    if photos := [url for url in wire.get("photo", ()) if escape(url) not in content["html"]]:
        wire["photo"] = photos
    else:
        wire.pop("photo", None)
    # The ids stay the last members, and a missing author the last one before them.
    whole = dump({"type": wire.get("type", "entry"), "content": None} | wire | {"content": content})
    return Texts(data, whole, automatic) if len(whole) <= _LARGEST_ITEM else data


_MOST_PLAYERS = 100
"""Players of a text that are looked at: a megabyte of them would take half a second at each reading."""

_ATTRIBUTES = "[^<>]*+"  # sanitised HTML has no angle brackets in attributes
_PLAYER = re.compile(
    rf"<iframe\b{_ATTRIBUTES}>.*?</iframe>|<(video|audio)\b{_ATTRIBUTES}>(?:(?!<\1\b).)*?</\1>"
    rf"|<a\b{_ATTRIBUTES}>(?:<img\b{_ATTRIBUTES}><br>)?▶ (?P<words>[^<]*)</a>",
    re.DOTALL,
)
_ADDRESS = re.compile(r'\s(?:src|href)="([^"]*)"')


_PICTURE = re.compile(rf"<img\b{_ATTRIBUTES}>")
_SMALL = re.compile(r'\s(?:width|height)="[0-9]{1,2}"')
"""As signs in the line are."""


def _picture(html: str) -> str:
    """The first picture of sanitised HTML; empty for none."""
    found = (one[0] for one in islice(_PICTURE.finditer(html), _MOST_PLAYERS))
    return next((picture for picture in found if not _SMALL.search(picture)), "")


def _players(html: str) -> dict[str, str]:
    """The first players in sanitised HTML, by the address of the page or file that they play."""
    found: dict[str, str] = {}
    for player in islice(_PLAYER.finditer(html), _MOST_PLAYERS):
        address, words = _ADDRESS.search(player[0]), player["words"]
        page = page_of(unescape(address[1]))[0] if address is not None else ""
        if page and (words is None or names_player(unescape(words), page)):
            found[page] = player[0]
    return found


def _with_players(article: str, own: str) -> str:
    """The HTML of an article below those players of the feed's text that it lacks."""
    players = _players(own)
    known = _players(article) if players else {}
    missing = " ".join(player for page, player in players.items() if page not in known)
    return f"<div>{missing}</div>{article}" if missing else article  # no paragraph, which would end where they have one
