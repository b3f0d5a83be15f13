"""What a permission means, in words for the person who grants it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from microsub.model.scopes import ALL_SCOPES, OTHER_NAMES

_HERE = {
    "read": "Read your channels and posts, search, and mark posts as read.",
    "follow": "Follow and unfollow feeds.",
    "mute": "Mute and unmute people.",
    "block": "Block and unblock people. The posts of blocked people are removed.",
    "channels": "Make, rename, order and delete channels.",
}
_AT_ONES_SITE = {
    "create": "Publish posts on your site.",
    "draft": "Save drafts of posts on your site.",
    "update": "Change posts on your site.",
    "delete": "Delete posts on your site.",
    "undelete": "Restore deleted posts on your site.",
    "media": "Upload pictures and other files to your site.",
    "post": "Publish posts on your site.",
}
_PROFILE = "See the name of your account here."


@dataclass(frozen=True, slots=True)
class ScopeText:
    """A permission in words."""

    name: str
    text: str


def offered(scopes: Iterable[str], *, posting: bool) -> list[ScopeText]:
    """The permissions among `scopes` that can be given, those of this server first; the others mean nothing here.

    `posting`: those to post at the person's own site are among them, because their page names a place to post to.
    """
    asked = list(scopes)
    here = [ScopeText(name, text) for name in asked if (text := _text(name))]
    there = [ScopeText(name, text) for name in asked if (text := _AT_ONES_SITE.get(name))]
    return here + there if posting else here


def concerns_posting(scopes: Iterable[str]) -> bool:
    """Whether a permission to post at the person's own site is among them."""
    return not _AT_ONES_SITE.keys().isdisjoint(scopes)


def of_tokens() -> list[ScopeText]:
    """The permissions that a token of this server can have."""
    return [ScopeText(name, _HERE[name]) for name in ALL_SCOPES]


def _text(name: str) -> str | None:
    return _PROFILE if name == "profile" else _HERE.get(OTHER_NAMES.get(name, name))
