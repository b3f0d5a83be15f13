"""Keyboard shortcuts of all pages, and the user's own ones, which are kept with the account as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from microsub.base.errors import InvalidRequest
from microsub.base.texts import N_, Sentence

SHORTCUTS: Mapping[str, tuple[str, str, str]] = {
    "next": ("j", "next", N_("next post, opened if a post is open")),
    "previous": ("k", "previous", N_("previous post, opened if a post is open")),
    "down": ("n", "down", N_("next post, not opened")),
    "up": ("p", "up", N_("previous post, not opened")),
    "on": ("Space", "on", N_("page down, then the next unread post")),
    "unread": ("N", "unread", N_("next unread post, also in the next channel")),
    "open": ("o|Enter", "open", N_("open or close the post")),
    "original": ("v", "original", N_("open the original in a new tab")),
    "feed": (
        "F",
        "press .post:focus-within [data-its-feed], .post.whole [data-its-feed]",
        N_("only the posts of the post’s feed"),
    ),
    "full-text": ("d", "fullText", N_("full text, or the text of the feed")),
    "play": ("P", "play", N_("play the episode, or pause")),
    "list": ("1", "press .looks [value=list]", N_("show posts as a list")),
    "cards": ("2", "press .looks [value=cards]", N_("show posts as cards")),
    "full": ("3", "press .looks [value=full]", N_("show full posts")),
    "answer": ("e", "answer", N_("reply from your own site, if allowed")),
    "read": ("m", "read", N_("mark as read or unread")),
    "save": ("s|f", "save", N_("save or unsave")),
    "send": ("w", "send", N_("send to your first service")),
    "above": ("t", "above", N_("mark all posts up to here as read")),
    "page": ("T", "page", N_("mark this page as read, go to the next one")),
    "all": ("A", "all", N_("mark all as read")),
    "day": ("D", "press [name=older][value='1']", N_("mark posts older than a day as read")),
    "week": ("W", "press [name=older][value='7']", N_("mark posts older than a week as read")),
    "finish": ("M", "finish", N_("mark all as read, go to the next channel")),
    "undo": ("z", "undo", N_("undo")),
    "show": ("u", "show", N_("unread or all posts; from a post, its list")),
    "reload": ("r", "reload", N_("load new posts")),
    "next-channel": ("J", "nextChannel", N_("next channel or feed with unread posts")),
    "previous-channel": ("K", "previousChannel", N_("previous channel or feed with unread posts")),
    "home": ("g h|g u", "go /", N_("go to unread posts")),
    "everything": ("g a", "go /channel/global?show=all", N_("go to all posts")),
    "saved": ("g s|g b", "go /saved", N_("go to saved posts")),
    "last-read": ("g r", "go /read", N_("go to posts that you read last")),
    "notifications": ("g n", "go /channel/notifications", N_("go to notifications")),
    "find": ("g l", "go /channel", N_("find a channel by its name")),
    "display": ("g d", "go /display", N_("go to display and language")),
    "channels": ("g c", "channels", N_("go to the channels beside the page")),
    "feeds": ("g f", "go /feed", N_("go to all feeds")),
    "own-channels": ("g e", "go /channels", N_("go to the page of your channels")),
    "follow": ("+", "go /follow", N_("follow a feed")),
    "search": ("/", "search", N_("search posts; in all feeds, filter by name")),
    "search-all": ("g /", "go /search", N_("search posts, on every page")),
    "keys": ("?", "keys", N_("show keyboard shortcuts")),
}
"""Each action by its name: its keys, the action of the page's script, and what it does in words.

A space separates the keys of a sequence, `|` the keys that do the same.
"""

KEY_GROUPS: Mapping[str, str] = {
    "next": N_("Read posts"),
    "read": N_("Mark and save"),
    "show": N_("Lists and channels"),
    "home": N_("Go to pages"),
}
"""Headings of the table, each by the first action below it."""

NAMED = (
    *("Space", "Enter", "Backspace", "Delete", "Insert", "Home", "End"),
    *("ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"),
)
"""Keys that are written by their names in https://www.w3.org/TR/uievents-key/, but `Space`."""
_NAMES = {name.lower(): name for name in NAMED}
_MOST = 4
"""Keys of one action."""
_LONGEST = 100
"""Characters of a field with keys."""


class UnfitKeys(InvalidRequest):
    """The keys of the action `name` can't work. The description begins with the action in words."""

    def __init__(self, name: str, why: str, **values: str) -> None:
        super().__init__(Sentence("{action}: {why}", action=_said(name), why=Sentence(why, **values)))
        self.name = name


def shortcuts(stored: str) -> dict[str, tuple[str, str, str]]:
    """The table with what the user has chosen; `stored` is as `chosen_shortcuts` made it, empty for nothing.

    It may be of an earlier table: keys that actions have got since then are free if the user has given them to others.
    """
    if not stored:
        return dict(SHORTCUTS)
    own: dict[str, str] = orjson.loads(stored)
    taken = {key for name in own.keys() & SHORTCUTS.keys() for key in own[name].split("|")}
    begun = {key.partition(" ")[0] for key in taken}

    def left(keys: str) -> str:
        return "|".join(key for key in keys.split("|") if key not in begun | taken and key.split(" ")[0] not in taken)

    return {name: (own.get(name, left(keys)), act, text) for name, (keys, act, text) in SHORTCUTS.items()}


def written(keys: str) -> str:
    """Keys as people write them into a field."""
    return ", ".join(keys.split("|")) if keys else ""


def chosen_shortcuts(given: Mapping[str, Any]) -> str:
    """The keys in fields by actions' names, as they are stored: only those that differ from the table.

    Without a field, an action has the keys of the table. Raises UnfitKeys.
    """
    chosen: dict[str, str] = {}
    taken: dict[str, str] = {}
    for name, (usual, *_) in SHORTCUTS.items():
        keys = _keys(name, str(given.get(name, written(usual))))
        if "|".join(keys) != usual:
            chosen[name] = "|".join(keys)
        for key in keys:
            if key in taken:
                at, other = (name, taken[key]) if name in chosen else (taken[key], name)
                raise UnfitKeys(at, N_("“{key}” is also the key of “{other}”"), key=key, other=_said(other))
            taken[key] = name
    for key, name in taken.items():
        first, _, second = key.partition(" ")
        if second and first in taken:
            why = N_("“{key}” begins “{sequence}”, the keys of “{other}”")
            raise UnfitKeys(taken[first], why, key=first, sequence=key, other=_said(name))
    return orjson.dumps(chosen).decode() if chosen else ""


def _said(name: str) -> Sentence:
    return Sentence(SHORTCUTS[name][2])


def _keys(name: str, field: str) -> list[str]:
    if len(field) > _LONGEST:
        why = N_("found {count} characters, expected at most {most}")
        raise UnfitKeys(name, why, count=str(len(field)), most=str(_LONGEST))
    keys = list(
        dict.fromkeys(" ".join(_key(name, part) for part in one.split()) for one in field.split(",") if one.strip())
    )
    if field.strip() and not keys:  # a comma is no key, and only an empty field frees one
        keys = [_key(name, ",")]
    if len(keys) > _MOST:
        raise UnfitKeys(name, N_("found {count} keys, expected at most {most}"), count=str(len(keys)), most=str(_MOST))
    for key in keys:
        if key.count(" ") > 1:
            raise UnfitKeys(name, N_("“{keys}” has more than two keys; a sequence has two"), keys=key)
    return keys


def _key(name: str, part: str) -> str:
    if named := _NAMES.get(part.lower()):
        return named
    if len(part) != 1 or not part.isprintable() or part in {"|", ","}:
        why = N_("“{key}” is no key; expected one character, or one of {names}")
        raise UnfitKeys(name, why, key=part, names=", ".join(NAMED))
    return part
