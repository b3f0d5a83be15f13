"""What a permission means, in words for the person who grants it."""

from __future__ import annotations

from dataclasses import dataclass

from microsub.model.scopes import ALL_SCOPES, OTHER_NAMES

_HERE = {
    "read": "Read your channels and posts, search, and mark posts as read.",
    "follow": "Follow feeds for you, and unfollow them.",
    "mute": "Mute people for you, and unmute them.",
    "block": "Block people for you, and unblock them. What they wrote goes.",
    "channels": "Make, rename, order and delete your channels.",
}
_ELSEWHERE = {
    "create": "Publish posts on your site.",
    "draft": "Save drafts of posts on your site.",
    "update": "Change posts on your site.",
    "delete": "Delete posts on your site.",
    "undelete": "Bring deleted posts of your site back.",
    "media": "Upload pictures and other files to your site.",
    "post": "Publish posts on your site.",
}
_PROFILE = "See the name and address of your account here, beside your profile URL."
_NOWHERE = "This server does not know it. Another one that trusts this server might."


@dataclass(frozen=True, slots=True)
class ScopeText:
    """A permission in words. `is_ours`: it means something on this server."""

    name: str
    text: str
    is_ours: bool


def explained(scope: str) -> ScopeText:
    """The permission of that name."""
    if scope in ALL_SCOPES:
        return ScopeText(scope, _HERE[scope], True)
    if scope in OTHER_NAMES:
        meant = OTHER_NAMES[scope]
        return ScopeText(scope, f"The same as {meant}. {_HERE[meant]}", True)
    if scope == "profile":
        return ScopeText(scope, _PROFILE, True)
    if scope in _ELSEWHERE:
        return ScopeText(scope, f"{_ELSEWHERE[scope]} It counts only where your site trusts this server.", False)
    return ScopeText(scope, _NOWHERE, False)
